// The address map: the blocks of two policies at one moment, as rows of memory that are read like lines of text.
const STATES = ["free", "live", "pending", "unmapped", "lent", "dead", "claimed", "mixed"];
const LENT = 4;
const NAMES = {
  live: "in use", pending: "waiting for a stream", free: "free", lent: "in use through a stitched range elsewhere",
  claimed: "free", mixed: "several small blocks", none: "not held",
};
const panels = [];
let moments = [];
let playing = 0;

function stateColour(number) {
  return colour({ free: "free", claimed: "free", live: "live", pending: "pending", lent: "lent", mixed: "mixed" }[STATES[number]] || "none");
}

async function drawMaps() {
  const { file, version } = state;
  byId("map-none").hidden = file.num_moments > 0;
  byId("map-body").hidden = file.num_moments === 0;
  if (!file.num_moments) return;
  fill(byId("map-legend"), ...["live", "pending", "free", "lent", "mixed", "none"].map((name) => make("li", {}, make("span", { class: "dot", colour: colour(name) }), NAMES[name])));
  moments = (await load(file.moments)).row;
  if (version !== state.version) return;
  await Promise.all(panels.map(drawPanel));
}

// Two panels: what the job ran under, or the first policy that runs out of memory, beside memlake's own policy.
function startPanels() {
  const file = state.file;
  panels.length = 0;
  const own = Math.max(0, file.policies.findIndex((one) => one.is_own));
  const failing = file.policies.findIndex((one) => one.failure);
  const lake = file.policies.findIndex((one) => one.policy === "lake");
  const left = file.policies[own].is_own ? own : failing >= 0 ? failing : Math.max(0, file.policies.findIndex((one) => one.policy === "caching"));
  const right = lake >= 0 && lake !== left ? lake : file.policies.findIndex((_, place) => place !== left);
  fill(byId("maps"), ...[left, right].filter((place) => place >= 0).map((place, index) => makePanel(place, index)));
}

function makePanel(policy, index) {
  const panel = { policy, spans: null, boxes: [], selected: -1 };
  const choice = make("select", { "aria-label": `Policy of map ${index + 1}`, id: `map-policy-${index}` });
  state.file.policies.forEach((one, place) => choice.append(make("option", { value: place }, `${one.label}${one.is_own ? " (the job ran under it)" : ""}`)));
  choice.value = String(policy);
  choice.addEventListener("change", () => {
    panel.policy = Number(choice.value);
    drawPanel(panel);
  });
  panel.canvas = make("canvas", { tabindex: 0, role: "img", id: `map-canvas-${index}` });
  panel.figures = make("p", { class: "figures" });
  panel.canvas.addEventListener("pointermove", (event) => readPanel(panel, event));
  panel.canvas.addEventListener("keydown", (event) => walkPanel(panel, event));
  panels.push(panel);
  return make("div", { class: "panel" }, make("div", { class: "tools" }, make("span", { class: "dot", colour: policyColour(state.file, policy) }), choice), panel.canvas, panel.figures);
}

async function drawPanel(panel) {
  const { file, version } = state;
  const policy = file.policies[panel.policy];
  const dot = panel.canvas.parentElement.querySelector(".dot");
  dot.style.background = policyColour(file, panel.policy);
  const [columns, split] = await Promise.all([load(policy.map), load(policy.map.split)]);
  if (version !== state.version) return;
  if (!columns.place) columns.place = undoDifferences(columns.address);
  const moment = Math.min(state.moment, policy.map.moments - 1);
  const isOver = state.moment >= policy.map.moments;
  panel.columns = columns;
  panel.spans = spansAt(columns, moment);
  layOut(panel, file, policy, columns);
  paint(panel, file, policy, columns);
  describePanel(panel, file, policy, split, moment, isOver);
}

function undoDifferences(differences) {
  const places = new Float64Array(differences.length);
  let place = 0;
  for (let i = 0; i < differences.length; i += 1) {
    // Differences are modulo 2^32, because a span of a later moment may begin before the last one ends.
    place = (place + differences[i]) % 4294967296;
    places[i] = place;
  }
  return places;
}

function spansAt(columns, moment) {
  const found = [];
  const { first, last } = columns;
  for (let i = 0; i < first.length; i += 1) if (first[i] <= moment && moment <= last[i]) found.push(i);
  return found;
}

// Finds the begin of each span in the drawn space. Held memory only: spans side by side, in the order of addresses.
function layOut(panel, file, policy, columns) {
  const isPacked = byId("map-layout").value === "packed";
  panel.begins = new Float64Array(panel.spans.length);
  let end = 0;
  panel.spans.forEach((span, index) => {
    if (isPacked) {
      panel.begins[index] = end;
      if (columns.state[span] !== LENT) end += columns.nbytes[span];
    } else {
      panel.begins[index] = columns.place[span];
    }
  });
  panel.extent = file.capacity / file.unit;
  if (!isPacked) {
    if (columns.extent === undefined) {
      columns.extent = 1;
      for (let i = 0; i < columns.place.length; i += 1) columns.extent = Math.max(columns.extent, columns.place[i] + columns.nbytes[i]);
    }
    panel.extent = columns.extent;
  }
}

function paint(panel, file, policy, columns) {
  const canvas = panel.canvas;
  const width = Math.max(canvas.clientWidth, 200);
  const lines = width < 420 ? 22 : 26;
  const lineHeight = 13;
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(lines * lineHeight * scale);
  canvas.style.height = `${lines * lineHeight}px`;
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  panel.perLine = Math.max(1, Math.ceil(panel.extent / lines));
  panel.lineHeight = lineHeight;
  panel.width = width;
  const perPixel = panel.perLine / width;
  ctx.clearRect(0, 0, width, lines * lineHeight);
  ctx.fillStyle = colour("none");
  for (let i = 0; i < lines; i += 1) {
    const rest = Math.min(1, Math.max(0, panel.extent / panel.perLine - i));
    ctx.fillRect(0, i * lineHeight + 1, width * rest, lineHeight - 2);
  }
  const by = byId("map-colour").value;
  const wanted = state.search ? matchingSites(file) : null;
  const isPacked = byId("map-layout").value === "packed";
  const edge = colour("ink");
  const palette = STATES.map((_, number) => stateColour(number));
  const several = 4294967295;
  let before = -1;
  panel.spans.forEach((span, index) => {
    const number = columns.state[span];
    if (isPacked && number === LENT) return;
    let paintWith = palette[number];
    if (number === 1 && by === "site") paintWith = columns.site[span] === several ? palette[7] : hueColour(columns.site[span]);
    if (number === 1 && by === "stream") paintWith = hueColour(columns.stream[span]);
    if (wanted && number === 1) ctx.globalAlpha = wanted.has(columns.site[span]) ? 1 : 0.22;
    ctx.fillStyle = wanted && number === 1 && wanted.has(columns.site[span]) ? colour("mark") : paintWith;
    eachPart(panel, panel.begins[index], columns.nbytes[span], (x, y, part) => {
      // A hairline between blocks, if they are wide enough for one.
      ctx.fillRect(x, y + 1, Math.max(part - (part > 3 ? 0.6 : 0), 0.4), lineHeight - 2);
    });
    ctx.globalAlpha = 1;
    if (columns.segment[span] !== before) {
      before = columns.segment[span];
      const at = panel.begins[index];
      ctx.fillStyle = edge;
      ctx.fillRect((at % panel.perLine) / perPixel, Math.floor(at / panel.perLine) * lineHeight, 1.2, lineHeight);
    }
    drawChunks(ctx, panel, policy, columns, span, index, perPixel);
  });
  if (panel.selected >= 0 && panel.selected < panel.spans.length) {
    ctx.strokeStyle = edge;
    ctx.lineWidth = 2;
    eachPart(panel, panel.begins[panel.selected], columns.nbytes[panel.spans[panel.selected]], (x, y, part) => ctx.strokeRect(x, y + 1, Math.max(part, 2), lineHeight - 2));
  }
}

// The borders of the chunks of an expandable segment, if a chunk is wide enough to be told from its neighbours.
function drawChunks(ctx, panel, policy, columns, span, index, perPixel) {
  const segment = policy.map.segments[columns.segment[span]];
  const page = segment ? segment[1] / state.file.unit : 0;
  if (!page || page / perPixel < 7) return;
  ctx.fillStyle = colour("card");
  const begin = panel.begins[index];
  for (let at = begin; at < begin + columns.nbytes[span]; at += page) {
    ctx.fillRect((at % panel.perLine) / perPixel, Math.floor(at / panel.perLine) * panel.lineHeight + 2, 0.7, panel.lineHeight - 4);
  }
}

// Calls draw(x, y, width) for each line that a range of units crosses.
function eachPart(panel, begin, length, draw) {
  const perPixel = panel.perLine / panel.width;
  let at = begin;
  let left = length;
  while (left > 0) {
    const lineNumber = Math.floor(at / panel.perLine);
    const inLine = at - lineNumber * panel.perLine;
    const part = Math.min(left, panel.perLine - inLine);
    draw(inLine / perPixel, lineNumber * panel.lineHeight, part / perPixel);
    at += part;
    left -= part;
  }
}

function describePanel(panel, file, policy, split, moment, isOver) {
  const at = (name) => split[name][moment];
  const held = at("requested") + at("rounding") + at("pending") + at("external") + at("cached");
  const over = isOver ? `${policy.label} ran out of memory at row ${count(policy.failure ? policy.failure.row : policy.rows)}; this is its last moment. ` : "";
  const coarse = policy.map.grain ? ` Blocks below ${bytes(policy.map.grain)} are drawn together.` : "";
  const text =
    `${over}Held ${bytes(held)} in ${counted(at("segments"), "segment")}: in use ${bytes(at("requested") + at("rounding"))}, ` +
    `waiting ${bytes(at("pending"))}, free between blocks ${bytes(at("external"))}, free to give back ${bytes(at("cached"))}; ` +
    `largest free block ${bytes(at("largest_free"))}.${coarse}`;
  panel.figures.textContent = text;
  panel.canvas.setAttribute("aria-label", `Address map of ${policy.label} after row ${count(moments[moment])}. ${text}`);
}

function pieceText(panel, index) {
  const { columns } = panel;
  const file = state.file;
  const policy = file.policies[panel.policy];
  const span = panel.spans[index];
  const name = STATES[columns.state[span]];
  const segment = policy.map.segments[columns.segment[span]];
  const site = file.sites[columns.site[span]];
  const used = name === "live" || name === "pending";
  const who = used ? `, ${site ? site[0] : "several or rare call sites"}, stream ${columns.stream[span]}` : "";
  const page = segment[1] ? `, chunks of ${bytes(segment[1])}` : "";
  return `${policy.label}: ${bytes(columns.nbytes[span] * file.unit)} ${NAMES[name] || name}${who}; segment ${segment[0]}${segment[2] ? " (small)" : ""}${page}.`;
}

function readPanel(panel, event) {
  if (!panel.spans) return;
  const box = panel.canvas.getBoundingClientRect();
  const lineNumber = Math.floor((event.clientY - box.top) / panel.lineHeight);
  const unit = lineNumber * panel.perLine + ((event.clientX - box.left) * panel.perLine) / panel.width;
  let low = 0;
  let high = panel.spans.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (panel.begins[middle] <= unit) low = middle;
    else high = middle - 1;
  }
  const length = panel.spans.length ? panel.columns.nbytes[panel.spans[low]] : 0;
  const isInside = panel.spans.length && unit >= panel.begins[low] && unit < panel.begins[low] + length;
  byId("map-hover").textContent = isInside ? pieceText(panel, low) : `${state.file.policies[panel.policy].label}: not held at this moment.`;
}

function walkPanel(panel, event) {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 20, ArrowUp: -20 }[event.key];
  if (!step || !panel.spans || !panel.spans.length) return;
  event.preventDefault();
  panel.selected = Math.max(0, Math.min(panel.spans.length - 1, panel.selected + step));
  byId("map-hover").textContent = pieceText(panel, panel.selected);
  paint(panel, state.file, state.file.policies[panel.policy], panel.columns);
}

function showMoment(moment) {
  if (!moments.length) return;
  state.moment = Math.max(0, Math.min(moments.length - 1, moment));
  state.row = moments[state.moment];
  byId("moment").value = String(state.moment);
  const step = state.file.steps.find((one) => one[1] <= state.row && state.row < one[2]);
  const text = `after row ${count(state.row)}${step ? `, step ${step[0]}` : ""} (moment ${state.moment + 1} of ${moments.length})`;
  byId("moment-text").textContent = text;
  byId("moment").setAttribute("aria-valuetext", text);
  for (const panel of panels) panel.selected = -1;
  for (const chart of charts) chart.redraw(false);
  panels.forEach(drawPanel);
}

// Shows the moment that is nearest to a row.
function showRow(row) {
  if (!moments.length) {
    state.row = Math.round(row);
    for (const chart of charts) chart.redraw(false);
    return;
  }
  let best = 0;
  for (let i = 1; i < moments.length; i += 1) if (Math.abs(moments[i] - row) < Math.abs(moments[best] - row)) best = i;
  showMoment(best);
}

async function fillMoments() {
  const { file, version } = state;
  moments = [];
  if (!file.num_moments) return;
  const rows = (await load(file.moments)).row;
  if (version !== state.version) return;
  moments = rows;
  byId("moment").max = String(moments.length - 1);
  const jumps = [];
  if (file.peak.row !== null && hasTimeline(file)) jumps.push(["Live peak", file.peak.row]);
  if (file.oom) jumps.push(["Out of memory", file.oom.row]);
  file.policies.forEach((one) => one.failure && jumps.push([`${one.label} runs out`, one.failure.row]));
  jumps.push(["End", file.rows - 1]);
  fill(byId("jumps"), ...jumps.map(([text, row]) => make("button", { type: "button", onclick: () => showRow(row) }, text)));
  showRow(file.oom ? file.oom.row : (file.policies.find((one) => one.failure) || { failure: { row: file.peak.row || 0 } }).failure.row);
}

function play(isOn) {
  clearInterval(playing);
  playing = 0;
  byId("play").setAttribute("aria-pressed", String(isOn));
  byId("play").textContent = isOn ? "Stop" : "Play";
  if (!isOn) return;
  if (state.moment >= moments.length - 1) showMoment(0);
  playing = setInterval(() => {
    showMoment(state.moment + 1);
    if (state.moment >= moments.length - 1) play(false);
  }, 90);
}

function startMap() {
  redraws.add(drawMaps);
  byId("moment").addEventListener("input", (event) => showMoment(Number(event.target.value)));
  byId("moment-back").addEventListener("click", () => showMoment(state.moment - 1));
  byId("moment-forth").addEventListener("click", () => showMoment(state.moment + 1));
  byId("play").addEventListener("click", () => play(!playing));
  byId("map-colour").addEventListener("change", drawMaps);
  byId("map-layout").addEventListener("change", drawMaps);
}
