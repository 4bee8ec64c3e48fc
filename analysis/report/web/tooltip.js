// The numbers of a step, beside it while the pointer or the keyboard is on it.

const tooltip = document.getElementById("viewer-tooltip");
const details = new WeakMap(); // of a step's element: the lines of its tooltip, and its mark
let shown = null;

function tooltipLines(response, place, table) {
  const step = response.steps[place];
  const next = response.steps[place + 1];
  const after = (of) => {
    const number = next === undefined ? response.reward : of(next);
    return isKnown(number) ? `, after ${fixed(number)}` : "";
  };
  const lines = [["step", `${place + 1} of ${response.steps.length}`]];
  if (isKnown(step.advantage)) lines.push(["advantage", signed(step.advantage)]);
  if (step.returns) {
    lines.push(["V before", fixed(returnsMean(step)) + after(returnsMean)]);
    lines.push([`its ${step.returns.length} returns`, listed(step.returns)]);
  }
  if (isKnown(step.critic)) {
    lines.push(["critic's value", fixed(step.critic) + after(criticValue)]);
  }
  if (step.truth) {
    const { correct, samples, low, high, policy } = step.truth;
    lines.push(["truth before", `${fixed(correct / samples)} (${fixed(low)} to ${fixed(high)})`]);
    lines.push(["", `${correct} of ${samples} returns are 1; interval of 95 %`]);
    if (policy !== table.iteration - 1) {
      lines.push(["", `of the policy of iteration ${policy}, which did not sample this`]);
    }
  }
  return lines;
}

function showTooltip(target) {
  hideTooltip();
  const { lines, mark } = details.get(target);
  const list = document.createElement("dl");
  for (const texts of lines) {
    ["dt", "dd"].forEach((tag, column) => {
      const cell = document.createElement(tag);
      cell.textContent = texts[column];
      list.append(cell);
    });
  }
  tooltip.replaceChildren(list);
  tooltip.hidden = false;
  target.setAttribute("aria-describedby", tooltip.id);
  mark?.classList.add("on");
  shown = target;
  place(target);
}

// To the right of a step that leaves room there, else below its last line, else above its first.
function place(target) {
  const lines = target.getClientRects();
  const [first, last] = [lines[0], lines[lines.length - 1]];
  const { clientWidth, clientHeight } = document.documentElement;
  const { offsetHeight: height, offsetWidth: width } = tooltip;
  const widest = Math.max(...Array.from(lines, (line) => line.right));
  let [left, top] = [last.left, last.bottom + 6];
  if (widest + width + 18 < clientWidth) [left, top] = [widest + 10, first.top - 8];
  else if (top + height > clientHeight) top = first.top - height - 6;
  tooltip.style.left = `${Math.max(4, Math.min(left, clientWidth - width - 8))}px`;
  tooltip.style.top = `${Math.max(4, Math.min(top, clientHeight - height - 4))}px`;
}

function hideTooltip() {
  tooltip.hidden = true;
  shown?.removeAttribute("aria-describedby");
  if (shown) details.get(shown).mark?.classList.remove("on");
  shown = null;
}

const stepOf = (event) => event.target.closest?.(".step[data-number]");

function walk(event) {
  if (event.key === "Escape") hideTooltip();
  const step = stepOf(event);
  const steps = step ? [...step.parentElement.querySelectorAll(".step")] : [];
  const at = steps.indexOf(step);
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 }[event.key];
  if (steps[to] === undefined) return;
  event.preventDefault();
  step.tabIndex = -1; // Tab leaves a response where it was left, and comes back there
  steps[to].tabIndex = 0;
  steps[to].focus();
}

function listenForSteps(container) {
  const show = (event) => {
    const step = stepOf(event);
    if (step) showTooltip(step);
  };
  container.addEventListener("mouseover", show);
  container.addEventListener("focusin", show);
  container.addEventListener("mouseout", hideTooltip);
  container.addEventListener("focusout", hideTooltip);
  document.addEventListener("keydown", walk);
  document.addEventListener("scroll", () => shown && place(shown), { passive: true });
}
