// The heat map of a sweep: a line for each file, a column for each setting.
const OUTCOMES = ["fits", "out of memory", "cannot be known"];
const OUTCOME_NAMES = ["ok", "oom", "unknown"];
const heat = { cells: null, files: [], chosen: [0, 0], left: 0, top: 0, width: 1, height: 1 };

function cellOf(file, setting) {
  return file * DATA.settings.length + setting;
}

function cellText(file, setting) {
  const cell = cellOf(file, setting);
  const outcome = heat.cells.outcome[cell];
  if (outcome === 0) return bytes(heat.cells.held[cell], 1);
  return outcome === 1 ? "OOM" : "?";
}

function cellColour(file, setting) {
  const cell = cellOf(file, setting);
  const outcome = heat.cells.outcome[cell];
  if (outcome === 1) return colour("bad-area");
  if (outcome === 2) return colour("unsure-area");
  if (byId("heat-colour").value === "outcome") return colour("good-area");
  return shareColour(heat.cells.held[cell] / DATA.settings[setting].capacity);
}

// A scale in ten steps, so that a cell can be compared with the legend.
function shareColour(part) {
  const step = Math.min(9, Math.max(0, Math.floor(part * 10)));
  return isDark() ? `hsl(205 55% ${18 + 3 * step}%)` : `hsl(208 65% ${95 - 4 * step}%)`;
}

// The files that match the search, in the chosen order.
function orderedFiles() {
  const places = DATA.files.map((_, place) => place);
  const isFound = (place) => [DATA.files[place].title, DATA.files[place].path].some((text) => text.toLowerCase().includes(state.search));
  const found = state.search ? places.filter(isFound) : places;
  if (byId("order").value === "given") return found;
  return found.sort((a, b) => DATA.files[a].num_fitting - DATA.files[b].num_fitting || DATA.files[b].peak_live - DATA.files[a].peak_live || a - b);
}

function drawHeat() {
  const canvas = byId("heat-canvas");
  const [lines, columns] = [heat.files.length, DATA.settings.length];
  const room = Math.max(canvas.parentElement.clientWidth, 280);
  const longest = Math.max(3, ...heat.files.slice(0, 400).map((place) => DATA.files[place].title.length));
  heat.left = Math.min(12 + 7 * longest, room < 600 ? 76 : 170);
  heat.width = Math.max(Math.min((room - heat.left) / columns, 150), 5);
  heat.height = lines <= 40 ? 24 : lines <= 150 ? 14 : lines <= 2000 ? 6 : 3;
  const namesAreLevel = heat.width >= 62;
  const names = DATA.settings.map((one) => one.label);
  heat.top = 26 + (namesAreLevel ? 20 : heat.width >= 12 ? Math.min(14 + 6.4 * Math.max(...names.map((name) => name.length)), 130) : 0);
  const width = Math.min(heat.left + heat.width * columns, 30000);
  const height = Math.min(heat.top + heat.height * Math.max(lines, 1) + 1, 30000);
  const scale = width * height > 8e6 ? 1 : devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.dataset.grid = [heat.left, heat.top, heat.width, heat.height].join(" ");
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  ctx.textBaseline = "middle";
  drawHeads(ctx, names, namesAreLevel);
  heat.files.forEach((place, line) => drawLine(ctx, place, line));
  markChosen(ctx);
  drawHeatLegend();
}

// The devices, and below them the policies.
function drawHeads(ctx, names, areLevel) {
  let before = null;
  DATA.settings.forEach((one, column) => {
    const x = heat.left + column * heat.width;
    if (one.capacity !== before) {
      const until = DATA.settings.filter((other) => other.capacity === one.capacity).length;
      ctx.fillStyle = colour("ink");
      ctx.font = "bold 12px system-ui, sans-serif";
      ctx.fillText(clipped(ctx, `${until * heat.width < 110 ? "" : "device "}${bytes(one.capacity)}`, until * heat.width - 6), x + 4, 12);
      ctx.fillStyle = colour("soft");
      ctx.fillRect(x, 0, 1.5, heat.top + heat.files.length * heat.height);
      before = one.capacity;
    }
    if (heat.width < 12) return;
    ctx.fillStyle = colour("soft");
    ctx.font = "12px system-ui, sans-serif";
    if (areLevel) {
      ctx.fillText(clipped(ctx, names[column], heat.width - 8), x + 5, 34);
      return;
    }
    ctx.save();
    ctx.translate(x + heat.width / 2, heat.top - 5);
    ctx.rotate(-Math.PI / 2);
    ctx.fillText(clipped(ctx, names[column], heat.top - 32), 0, 0);
    ctx.restore();
  });
}

function drawLine(ctx, place, line) {
  const y = heat.top + line * heat.height;
  ctx.font = "12px system-ui, sans-serif";
  if (heat.height >= 11) {
    ctx.fillStyle = place === DATA.worst ? colour("bad") : colour("ink");
    ctx.fillText(clipped(ctx, DATA.files[place].title, heat.left - 10), 2, y + heat.height / 2);
  }
  const gap = heat.height > 8 && heat.width > 8 ? 1 : 0;
  DATA.settings.forEach((_, setting) => {
    const x = heat.left + setting * heat.width;
    ctx.fillStyle = cellColour(place, setting);
    ctx.fillRect(x + gap, y, Math.max(heat.width - gap, 1), heat.height - gap);
    if (heat.width >= 62 && heat.height >= 14) {
      ctx.fillStyle = colour("ink");
      ctx.fillText(clipped(ctx, cellText(place, setting), heat.width - 8), x + 6, y + heat.height / 2);
    } else if (heat.width >= 10 && heat.height >= 10 && heat.cells.outcome[cellOf(place, setting)]) {
      // A cell without a text must not be known by its colour alone.
      ctx.fillStyle = colour("ink");
      ctx.fillText(heat.cells.outcome[cellOf(place, setting)] === 1 ? "✕" : "?", x + heat.width / 2 - 4, y + heat.height / 2);
    }
  });
}

function clipped(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && ctx.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return `${text.slice(0, length)}…`;
}

function markChosen(ctx) {
  const line = heat.files.indexOf(heat.chosen[0]);
  if (line < 0) return;
  ctx.strokeStyle = colour("accent");
  ctx.lineWidth = 2;
  ctx.strokeRect(heat.left + heat.chosen[1] * heat.width + 1, heat.top + line * heat.height + 1, Math.max(heat.width - 2, 2), Math.max(heat.height - 2, 2));
}

function drawHeatLegend() {
  const isShare = byId("heat-colour").value === "held";
  const fitting = isShare ? [0, 0.3, 0.6, 0.9].map((part) => [shareColour(part), `holds ${Math.round(part * 100)} to ${Math.round(part * 100 + 10)} % of the device`]) : [[colour("good-area"), "fits"]];
  const entries = [...fitting, [colour("bad-area"), "✕ or OOM: out of memory"], [colour("unsure-area"), "?: the file cannot tell"]];
  fill(byId("heat-legend"), ...entries.map(([tone, text]) => make("li", {}, make("span", { class: "dot", colour: tone }), text)));
}

function describeCell(place, setting) {
  const [file, one, cell] = [DATA.files[place], DATA.settings[setting], cellOf(place, setting)];
  const { outcome, held, failed, driver } = heat.cells;
  const at = outcome[cell] === 1 && failed[cell] >= 0 ? ` at row ${count(failed[cell])}` : "";
  const part = `${bytes(held[cell])} held at the peak, ${share(held[cell], one.capacity)} of the device, ${bytes(file.peak_live)} live`;
  return `${file.title} under ${one.label} on ${bytes(one.capacity)}: ${OUTCOMES[outcome[cell]]}${at}; ${part}; driver ${milliseconds(driver[cell] < 0 ? null : driver[cell])}.`;
}

function chooseCell(place, setting) {
  heat.chosen = [place, setting];
  byId("heat-text").textContent = describeCell(place, setting);
}

function cellAt(event) {
  const box = byId("heat-canvas").getBoundingClientRect();
  const setting = Math.floor((event.clientX - box.left - heat.left) / heat.width);
  const line = Math.floor((event.clientY - box.top - heat.top) / heat.height);
  return setting >= 0 && setting < DATA.settings.length && line >= 0 && line < heat.files.length ? [heat.files[line], setting] : null;
}

function startHeat() {
  redraws.add(drawHeat);
  const canvas = byId("heat-canvas");
  canvas.addEventListener("mousemove", (event) => {
    const found = cellAt(event);
    if (found) byId("heat-text").textContent = describeCell(...found);
  });
  canvas.addEventListener("click", (event) => {
    const found = cellAt(event);
    if (!found) return;
    chooseCell(...found);
    drawHeat();
    chooseFile(found[0]);
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === "Enter") chooseFile(heat.chosen[0]);
    if (!step || !heat.files.length) return;
    event.preventDefault();
    const line = Math.max(0, Math.min(heat.files.length - 1, heat.files.indexOf(heat.chosen[0]) + step[0]));
    chooseCell(heat.files[line], Math.max(0, Math.min(DATA.settings.length - 1, heat.chosen[1] + step[1])));
    drawHeat();
  });
  byId("heat-colour").addEventListener("change", drawHeat);
}
