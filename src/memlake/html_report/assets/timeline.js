// Live and held memory over time, for what the job ran under and for each policy.
function inBytes(column, unit, length) {
  const values = new Array(length).fill(null);
  for (let i = 0; i < Math.min(column.length, length); i += 1) values[i] = column[i] * unit;
  return values;
}

// A file of one moment has no rows after what was live at its beginning.
function hasTimeline(file) {
  return file.rows > file.first_row;
}

async function drawTimeline() {
  const { file, version } = state;
  for (const part of ["timeline-tools", "timeline-chart"]) byId(part).hidden = !hasTimeline(file);
  if (!hasTimeline(file)) {
    describeTimeline();
    return;
  }
  const columns = await load(file.series);
  const timelines = await Promise.all(file.policies.map((one) => load(one.timeline)));
  if (version !== state.version) return;
  const rows = Array.from(columns.row);
  const series = [
    { key: "live", label: "live", values: inBytes(columns.live, file.unit, rows.length), stroke: colour("live"), fill: colour("live-area"), width: 1 },
  ];
  if (columns.recorded) {
    series.push({ key: "recorded", label: "held, as PyTorch recorded it", values: inBytes(columns.recorded, file.unit, rows.length), stroke: colour("recorded"), dash: [2, 3] });
  }
  file.policies.forEach((one, place) => {
    series.push({
      key: one.label,
      label: `${one.label} held`,
      values: inBytes(timelines[place].held, file.unit, rows.length),
      stroke: policyColour(file, place),
      width: one.is_own || one.policy === "lake" ? 2.6 : 1.75,
      isOwn: one.is_own,
      isLake: one.policy === "lake",
    });
  });
  // What the job ran under and memlake's own policy are drawn last, over the others.
  const weight = (one) => (one.isOwn ? 2 : one.isLake ? 1 : 0);
  series.sort((a, b) => weight(a) - weight(b));
  for (const one of series) one.show = !state.hidden.has(one.key);
  let top = 0;
  for (const one of series) for (const value of one.values) if (one.show && value > top) top = value;
  const isNear = top > 0.6 * file.capacity;
  makeChart(byId("timeline-chart"), rows, series, {
    height: innerWidth < 600 ? 300 : 400,
    top: isNear ? Math.max(top, file.capacity) : top,
    limit: isNear ? { value: file.capacity, label: `device ${bytes(file.capacity)}` } : null,
    marks: outOfMemory(file),
  });
  fill(
    byId("series"),
    ...series.map((one) =>
      make(
        "button",
        { type: "button", class: "chip", "aria-pressed": one.show, onclick: () => toggle(one.key) },
        make("span", { class: "dot", colour: one.stroke }),
        one.label,
      ),
    ),
  );
  describeTimeline();
}

function toggle(key) {
  if (!state.hidden.delete(key)) state.hidden.add(key);
  drawTimeline();
}

function outOfMemory(file) {
  const marks = [];
  if (file.oom) marks.push({ row: file.oom.row, stroke: colour("bad"), label: `the job ran out of memory: ${bytes(file.oom.requested)} wanted` });
  file.policies.forEach((one, place) => {
    if (!one.failure || state.hidden.has(one.label)) return;
    if (file.oom && one.is_own && one.failure.row === file.oom.row) return;
    marks.push({ row: one.failure.row, stroke: policyColour(file, place), label: `${one.label} runs out of memory` });
  });
  return marks;
}

function describeTimeline() {
  const file = state.file;
  const [first, last] = state.range;
  const steps = file.steps.filter((step) => step[2] > first && step[1] <= last);
  const which = steps.length ? `, ${steps.length === 1 ? `step ${steps[0][0]}` : `steps ${steps[0][0]} to ${steps[steps.length - 1][0]}`}` : "";
  if (!hasTimeline(file)) {
    byId("timeline-text").textContent =
      `The file shows one moment and has no history, so there is no timeline. ${bytes(file.live_peak)} were live at that moment. ` +
      `A program that allocates just that holds: ${file.policies.map((one) => `${one.label} ${bytes(one.peak_held)}`).join(", ")}.`;
    return;
  }
  const held = file.policies.map((one) => `${one.label} ${one.failure ? `runs out of memory at row ${count(one.failure.row)}` : `holds ${bytes(one.peak_held)}`}`);
  byId("timeline-text").textContent =
    `Rows ${count(first)} to ${count(Math.min(last, file.rows - 1))} of ${count(file.rows)}${which}. At the peak ${bytes(file.live_peak)} are live; ${held.join(", ")}. ` +
    "Drag to zoom, double-click for all, click to choose the moment of the map.";
}

function startTimeline() {
  redraws.add(drawTimeline);
  byId("zoom-in").addEventListener("click", () => zoomBy(0.5));
  byId("zoom-out").addEventListener("click", () => zoomBy(2));
  byId("zoom-all").addEventListener("click", () => setRange(state.file.first_row, state.file.rows - 1));
  byId("step").addEventListener("change", (event) => {
    const step = state.file.steps[Number(event.target.value)];
    if (step) setRange(step[1], step[2] - 1);
    else setRange(state.file.first_row, state.file.rows - 1);
  });
  byId("timeline-chart").addEventListener("keydown", (event) => {
    const actions = {
      "+": () => zoomBy(0.5), "=": () => zoomBy(0.5), "-": () => zoomBy(2),
      0: () => setRange(state.file.first_row, state.file.rows - 1),
      ArrowLeft: () => panBy(-0.2), ArrowRight: () => panBy(0.2),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  });
}

function fillSteps() {
  const file = state.file;
  const options = file.steps.slice(0, 2000).map((step, place) => make("option", { value: place }, `${step[0]} (${bytes(step[3])} live)`));
  fill(byId("step"), make("option", { value: "" }, file.steps.length ? "all" : "not known"), ...options);
  byId("step").disabled = !file.steps.length;
}
