// The values along a response: every estimator's, the truth with its interval, the reward.

const CHART = { width: 310, height: 118, left: 26, right: 8, top: 8, bottom: 18 };

function svgElement(tag, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

// The drawing, null where no value is known, and the mark of each step, hidden at first.
function chart(response, table) {
  const { steps, reward } = response;
  if (!steps.some((step) => isKnown(COLOURS.value.of(step)) || step.truth)) {
    return { svg: null, marks: [] };
  }
  const x = (place) =>
    CHART.left + (place / steps.length) * (CHART.width - CHART.left - CHART.right);
  const bottom = CHART.height - CHART.bottom;
  const y = (number) => {
    // A critic may leave the range.
    const inside = Math.max(table.low, Math.min(table.high, number));
    return bottom - ((inside - table.low) / (table.high - table.low)) * (bottom - CHART.top);
  };
  const svg = svgElement("svg", {
    class: "values",
    viewBox: `0 0 ${CHART.width} ${CHART.height}`,
    role: "img",
    "aria-label": "values along the response; the numbers are with the steps",
  });
  const marks = steps.map((_, place) =>
    svgElement("path", { class: "mark", d: `M${x(place)} ${CHART.top}V${bottom}` }),
  );
  svg.append(...marks, ...axes(x, y, steps.length, table));
  for (const [kind, of] of [["returns", returnsMean], ["critic", criticValue]]) {
    svg.append(...curve(kind, steps.map(of), reward, x, y));
  }
  steps.forEach(({ truth }, place) => {
    if (!truth) return;
    const interval = `M${x(place)} ${y(truth.low)}V${y(truth.high)}`;
    const centre = { cx: x(place), cy: y(truth.correct / truth.samples), r: 3 };
    svg.append(svgElement("path", { class: "truth", d: interval }));
    svg.append(svgElement("circle", { class: "truth", ...centre }));
  });
  const corner = { x: x(steps.length) - 3, y: y(reward) - 3, width: 6, height: 6 };
  svg.append(svgElement("rect", { class: "reward", ...corner }));
  return { svg, marks };
}

function axes(x, y, count, { low, high }) {
  const lines = [low, (low + high) / 2, high].flatMap((number) => [
    svgElement("path", { class: "axis", d: `M${x(0)} ${y(number)}H${x(count)}` }),
    svgElement("text", { x: x(0) - 5, y: y(number) + 3, "text-anchor": "end" }, short(number)),
  ]);
  const apart = Math.ceil(count / 12); // between the numbers of steps that are written
  const below = { y: CHART.height - 4, "text-anchor": "middle" };
  for (let place = 0; place < count; place += apart) {
    lines.push(svgElement("text", { x: x(place), ...below }, place + 1));
  }
  return lines;
}

// Points and the lines between neighbours; of a curve with any, the last one leads to the reward.
function curve(kind, numbers, reward, x, y) {
  const all = numbers.some(isKnown) ? [...numbers, reward] : [];
  const point = (place) => `${x(place)} ${y(all[place])}`;
  let path = "";
  all.forEach((number, place) => {
    if (isKnown(number)) path += (isKnown(all[place - 1]) ? "L" : "M") + point(place);
  });
  const points = numbers.map((number, place) =>
    isKnown(number)
      ? svgElement("circle", { class: kind, cx: x(place), cy: y(number), r: 2.2 })
      : "",
  );
  return path ? [svgElement("path", { class: kind, d: path }), ...points] : [];
}
