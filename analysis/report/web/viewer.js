// The rollout viewer: draws what is chosen of the JSON in the page. A run's texts become text
// nodes, never markup. The choice stands in the address, so that a view can be linked to:
//     #run=0&iteration=12&problem=arithmetic/train/7&colour=value&reward=1&order=high

const byId = (name) => document.getElementById(`viewer-${name}`);
const data = JSON.parse(document.getElementById("rollout-data").textContent);
const SELECTS = ["run", "iteration", "problem", "reward", "order"];
let chosen = {};

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const allSteps = (table) =>
  table.problems.flatMap((problem) => problem.responses.flatMap((response) => response.steps));

// What is shown: the choice where it can be had, and else what comes nearest.
function settle() {
  const run = data.runs[chosen.run] ?? data.runs[0];
  const table =
    run.tables.find((one) => String(one.iteration) === chosen.iteration) ?? run.tables.at(-1);
  if (table === undefined) return { run };
  const problem = table.problems.find(({ id }) => id === chosen.problem) ?? table.problems[0];
  const steps = allSteps(table);
  const offered = Object.keys(COLOURS).filter((name) =>
    steps.some((step) => isKnown(COLOURS[name].of(step))),
  );
  const rewards = [...new Set(problem.rewards)].sort((a, b) => b - a).map(short);
  return {
    run,
    table,
    problem,
    offered,
    rewards,
    colour: offered.includes(chosen.colour) ? chosen.colour : "advantage",
    reward: rewards.includes(chosen.reward) ? chosen.reward : "all",
    order: ["high", "low"].includes(chosen.order) ? chosen.order : "sampled",
  };
}

function draw() {
  hideTooltip();
  const now = settle();
  fill("run", data.runs.map(({ name }, place) => [place, name]), data.runs.indexOf(now.run));
  byId("shown").hidden = now.table === undefined;
  byId("none").hidden = now.table !== undefined;
  if (now.table === undefined) return;
  const { table, problem } = now;
  fill("iteration", now.run.tables.map(({ iteration }) => [iteration, iteration]), table.iteration);
  fill("problem", table.problems.map((one) => [one.id, problemTitle(one)]), problem.id);
  fill("reward", [["all", "all"], ...now.rewards.map((one) => [one, one])], now.reward);
  byId("order").value = now.order;
  byId("previous").disabled = problem === table.problems[0];
  byId("next").disabled = problem === table.problems.at(-1);
  for (const input of byId("colour").querySelectorAll("input")) {
    input.checked = input.value === now.colour;
    input.disabled = !now.offered.includes(input.value);
    input.parentElement.classList.toggle("off", input.disabled);
  }
  byId("legend").replaceChildren(...legend(now));
  byId("note").textContent = note(table);
  const responses = element("div", { class: "responses" }, ...responseElements(now));
  byId("body").replaceChildren(problemElement(problem), responses);
}

function fill(name, options, value) {
  const made = options.map(([key, text]) => new Option(text, key, false, key === value));
  byId(name).replaceChildren(...made);
}

const problemTitle = ({ id, rewards }) =>
  `${id} · mean reward ${mean(rewards).toFixed(2)} of ${rewards.length}`;

const note = ({ iteration, problems, num_problems }) =>
  `${problems.length} of the ${num_problems} problems of iteration ${iteration}, whose rollouts ` +
  `the policy of iteration ${iteration - 1} sampled. Hover over a step, or walk with Tab and the ` +
  "arrow keys, to see its numbers.";

function legend({ table, colour, offered }) {
  const { title, ends, text } = COLOURS[colour];
  const [low, high] = ends(table);
  const scale = element("span", { class: "scale" });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const number = low + share * (high - low);
    const chip = element("span", {}, text(number));
    chip.style.background = background(number, [low, high]);
    scale.append(chip);
  }
  const steps = allSteps(table);
  const kinds = [
    ["returns", "mean of K returns", steps.some((step) => step.returns)],
    ["critic", "critic's value", steps.some((step) => isKnown(step.critic))],
    ["truth", "truth with its interval", offered.includes("truth")],
    ["reward", "reward", offered.includes("value") || offered.includes("truth")],
  ];
  const keys = kinds.filter(([, , isThere]) => isThere);
  return [
    element("span", {}, title, scale),
    ...keys.map(([kind, name]) =>
      element("span", {}, element("i", { class: `key ${kind}` }), name),
    ),
  ];
}

function problemElement({ id, prompt }) {
  const made = element("div", { class: "problem" }, element("header", {}, id));
  if (prompt !== null) made.append(element("pre", {}, prompt));
  return made;
}

function responseElements(now) {
  const { responses } = now.problem;
  const isWanted = ({ reward }) => now.reward === "all" || short(reward) === now.reward;
  const wanted = responses.filter(isWanted);
  const sign = { sampled: 0, high: -1, low: 1 }[now.order];
  wanted.sort((a, b) => sign * (a.reward - b.reward)); // stable: equal ones stay as sampled
  if (wanted.length === 0) return [element("p", {}, "No response in this page has this reward.")];
  return wanted.map((response) => responseElement(response, now));
}

function responseElement(response, { table, colour }) {
  const { index, reward, steps, text, is_cut } = response;
  const { svg, marks } = chart(response, table);
  const line = element("div", { class: "steps" });
  steps.forEach((_, place) => line.append(stepElement(response, place, table, colour, marks)));
  const written = element("div", {}, line);
  if (text !== null) written.prepend(element("div", { class: "steps whole" }, text));
  const count = `${steps.length} step${steps.length === 1 ? "" : "s"}`;
  const rest = ` · response ${index + 1} · ${count}${is_cut ? " · cut off by the token budget" : ""}`;
  const header = element("header", {}, element("b", {}, `reward ${short(reward)}`), rest);
  const columns = element("div", { class: svg ? "columns" : "" }, written, svg ?? "");
  return element("article", { class: "response" }, header, columns);
}

function stepElement(response, place, table, colour, marks) {
  const step = response.steps[place];
  const attributes = { class: "step", tabindex: place === 0 ? 0 : -1, "data-number": place + 1 };
  const made = element("span", attributes, step.text ?? "");
  const { of, ends } = COLOURS[colour];
  if (isKnown(of(step))) made.style.background = background(of(step), ends(table));
  else made.classList.add("unknown");
  details.set(made, { lines: tooltipLines(response, place, table), mark: marks[place] });
  return made;
}

function choose(changes) {
  chosen = { ...chosen, ...changes };
  history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
  draw();
}

function chooseNeighbour(distance) {
  const { table, problem } = settle();
  choose({ problem: table.problems[table.problems.indexOf(problem) + distance].id });
}

// An address without "=" is that of a section of the page.
function readAddress() {
  if (!location.hash.includes("=")) return;
  chosen = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  draw();
  document.getElementById("rollouts").scrollIntoView();
}

for (const name of SELECTS) {
  byId(name).addEventListener("change", (event) => choose({ [name]: event.target.value }));
}
byId("colour").addEventListener("change", (event) => choose({ colour: event.target.value }));
byId("previous").addEventListener("click", () => chooseNeighbour(-1));
byId("next").addEventListener("click", () => chooseNeighbour(1));
window.addEventListener("hashchange", readAddress);
listenForSteps(byId("body"));
document.getElementById("viewer").hidden = false;
draw();
readAddress();
