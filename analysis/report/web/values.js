// What is known of a step, in numbers, words and colours.

const RAISED = "0,114,178"; // blue and vermilion: told apart with every common colour blindness
const LOWERED = "213,94,0";
const STRONGEST = 0.65; // dark text stays readable on it
const MAX_LISTED = 40; // returns written one by one

const isKnown = (number) => number !== undefined && number !== null;
const mean = (numbers) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length;

const short = (number) => (number === null ? "?" : String(Number(number.toFixed(4))));
const fixed = (number) => number.toFixed(3).replace("-", "−");
const signed = (number) => (number < 0 ? "" : "+") + fixed(number);

const returnsMean = (step) => (step.returns ? mean(step.returns) : undefined);
const criticValue = (step) => step.critic;
const trueValue = (step) => (step.truth ? step.truth.correct / step.truth.samples : undefined);

// What a step may be coloured by: its name, its number, and the ends of its scale in a table.
const COLOURS = {
  advantage: {
    title: "advantage of a step",
    of: (step) => step.advantage,
    ends: (table) => [-table.scale, table.scale],
    text: signed,
  },
  value: {
    title: "value before a step",
    of: (step) => returnsMean(step) ?? criticValue(step),
    ends: (table) => [table.low, table.high],
    text: fixed,
  },
  truth: {
    title: "true value before a step",
    of: trueValue,
    ends: (table) => [table.low, table.high],
    text: fixed,
  },
};

// Vermilion at the lower end, white in the middle, blue at the upper end.
function background(number, [low, high]) {
  if (high === low) return "transparent";
  const share = Math.max(-1, Math.min(1, (2 * (number - low)) / (high - low) - 1));
  return `rgba(${share < 0 ? LOWERED : RAISED},${(STRONGEST * Math.abs(share)).toFixed(3)})`;
}

function listed(returns) {
  if (returns.length <= MAX_LISTED) return returns.map(short).join(" ");
  const kinds = [...new Set(returns)].sort((a, b) => a - b);
  const count = (kind) => returns.filter((one) => one === kind).length;
  return kinds.map((kind) => `${short(kind)} (${count(kind)} times)`).join(", ");
}
