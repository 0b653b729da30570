// Chooses a file, draws everything about it, and draws what is about all files.
async function choose(place) {
  state.file = DATA.files[place];
  state.version += 1;
  state.hidden = new Set(state.file.policies.filter((one) => one.policy === "direct").map((one) => one.label));
  state.range = state.file.window || [state.file.first_row, Math.max(state.file.rows - 1, state.file.first_row + 1)];
  state.row = state.file.peak.row || 0;
  play(false);
  drawVerdict();
  drawPolicies();
  fillSteps();
  startPanels();
  fill(byId("split-policy"), ...state.file.policies.map((one, index) => make("option", { value: index }, one.label)));
  const own = state.file.policies.findIndex((one) => one.is_own || one.policy === "caching");
  byId("split-policy").value = String(Math.max(own, 0));
  shownSites = FIRST_SITES;
  byId("flame-text").textContent = "";
  showFlame();
  drawPeak();
  drawNotes();
  for (const button of byId("ranks").querySelectorAll(".multiple")) button.setAttribute("aria-pressed", String(Number(button.value) === place));
  await Promise.all([drawTimeline(), drawMaps(), drawSplit(), drawDriver(), drawStreams()]);
  await fillMoments();
}

async function drawRanks() {
  byId("ranks").hidden = DATA.files.length < 2;
  if (DATA.diff) byId("ranks-title").textContent = "The two files";
  if (DATA.files.length < 2) return;
  const place = byId("ranks").querySelector(".multiples");
  if (!place.children.length) {
    DATA.files.forEach((file, index) => {
      const text = file.oom ? "ran out of memory" : OUTCOMES[file.outcome];
      place.append(
        make(
          "button", { type: "button", class: "multiple", value: index, "aria-pressed": index === 0, onclick: () => choose(index) },
          make("b", {}, file.name), make("br"), make("span", { class: `outcome-${file.outcome}` }, text),
          make("canvas", { "aria-hidden": "true" }),
          make("span", { class: "note" }, `live ${bytes(file.live_peak)}, held ${bytes(ownOf(file).peak_held)} of ${bytes(file.capacity)}`),
        ),
      );
    });
  }
  const top = Math.max(...DATA.files.map((file) => Math.max(file.capacity, ownOf(file).peak_held)));
  for (const button of place.children) await drawMultiple(DATA.files[Number(button.value)], button.querySelector("canvas"), top);
}

function ownOf(file) {
  return file.policies.find((one) => one.is_own) || file.policies.find((one) => one.policy === "caching") || file.policies[0];
}

async function drawMultiple(file, canvas, top) {
  const own = ownOf(file);
  const [series, timeline] = await Promise.all([load(file.series), load(own.timeline)]);
  const [ctx, width, height] = smallCanvas(canvas);
  const x = (at) => (at / Math.max(series.row.length - 1, 1)) * width;
  const y = (units) => height - 1 - ((units * file.unit) / top) * (height - 3);
  ctx.fillStyle = colour("live-area");
  ctx.beginPath();
  ctx.moveTo(0, height);
  series.live.forEach((units, at) => ctx.lineTo(x(at), y(units)));
  ctx.lineTo(width, height);
  ctx.fill();
  ctx.strokeStyle = colour("soft");
  ctx.setLineDash([3, 3]);
  line(ctx, 0, y(file.capacity / file.unit), width, y(file.capacity / file.unit));
  ctx.setLineDash([]);
  ctx.strokeStyle = policyColour(file, file.policies.indexOf(own));
  ctx.lineWidth = 1.4;
  ctx.beginPath();
  timeline.held.forEach((units, at) => ctx.lineTo(x(at), y(units)));
  ctx.stroke();
  if (own.failure) {
    ctx.fillStyle = colour("bad");
    ctx.font = "bold 13px system-ui, sans-serif";
    ctx.fillText("✕", Math.min(x(Math.max(timeline.held.length - 1, 0)), width - 12), 13);
  }
}

async function drawDiff() {
  const found = DATA.diff;
  byId("diff").hidden = !found;
  if (!found) return;
  byId("diff-sentence").textContent = found.sentence;
  const sides = await Promise.all(DATA.files.map((file) => load(file.series)));
  await drawDiffChart(sides);
  const totals = [["live peak", "peak_live"], ["held peak", "held_peak"], ["live at end", "end_live"], ["held at end", "end_held"]];
  fillTable(byId("diff-totals"), ["", found.a.name, found.b.name, "growth"], totals.map(([name, key]) => [name, bytes(found.a[key]), bytes(found.b[key]), growthCell(found.a[key], found.b[key])]));
  const growth = found.peak || found.end;
  const rows = growth.rows.slice(0, 200).map((row) => [row.name, growthCell(row.bytes_a, row.bytes_b), bytes(row.bytes_a), bytes(row.bytes_b), count(row.count_a), count(row.count_b)]);
  fillTable(byId("diff-sites"), ["call site", "growth", "A", "B", "# A", "# B"], rows);
  byId("diff-sites").caption.textContent = found.peak ? "By call site, peak against peak" : "By call site, end against end";
  const categories = growth.categories || [];
  byId("diff-categories").hidden = !categories.length;
  fillTable(byId("diff-categories"), ["category", "growth", "A", "B"], categories.map((one) => [one.category, growthCell(one.bytes_a, one.bytes_b), bytes(one.bytes_a), bytes(one.bytes_b)]));
}

function growthCell(a, b) {
  if (a === null || b === null || a === undefined || b === undefined) return "unknown";
  return [`${b >= a ? "+" : ""}${bytes(b - a)}`, b > a ? "grew" : b < a ? "shrank" : ""];
}

// The two files side by side from their beginnings to their ends: the rows of one do not match those of the other.
async function drawDiffChart(sides) {
  const place = byId("diff-chart");
  place.replaceChildren();
  const canvas = make("canvas", { role: "img", "aria-label": "Live memory of both files from beginning to end. The tables below have the figures." });
  place.append(canvas);
  const scale = devicePixelRatio || 1;
  const [width, height] = [Math.max(place.clientWidth - 12, 240), 200];
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  const units = DATA.files.map((file) => file.unit);
  const top = Math.max(1, ...sides.map((side, at) => side.live.reduce((most, value) => Math.max(most, value), 0) * units[at]));
  const [left, bottom] = [70, height - 20];
  const x = (part) => left + part * (width - left - 6);
  const y = (size) => bottom - (size / top) * (bottom - 42);
  ctx.font = "12px system-ui, sans-serif";
  ctx.textAlign = "right";
  for (const size of byteSplits(null, null, 0, top)) {
    ctx.strokeStyle = colour("grid");
    line(ctx, left, y(size), width, y(size));
    ctx.fillStyle = colour("soft");
    ctx.fillText(bytes(size), left - 6, y(size) + 4);
  }
  ctx.fillText("last row", width - 4, height - 5);
  ctx.textAlign = "left";
  ctx.fillText("first row", left, height - 5);
  sides.forEach((side, at) => {
    ctx.strokeStyle = colour(at ? "policy-caching" : "policy-lake");
    ctx.lineWidth = 1.8;
    ctx.setLineDash(at ? [] : [6, 3]);
    ctx.beginPath();
    side.live.forEach((value, index) => ctx.lineTo(x(index / Math.max(side.live.length - 1, 1)), y(value * units[at])));
    ctx.stroke();
    line(ctx, left, 10 + 15 * at, left + 24, 10 + 15 * at);
    ctx.fillStyle = ctx.strokeStyle;
    ctx.font = "bold 12px system-ui, sans-serif";
    ctx.fillText(`${at ? "B" : "A"}  ${DATA.files[at].name}: live peak ${bytes(DATA.files[at].live_peak)}`, left + 30, 14 + 15 * at);
  });
}

async function start() {
  startTheme();
  startTimeline();
  startMap();
  startFlame();
  redraws.add(drawPolicies);
  redraws.add(drawPeak);
  redraws.add(drawSplit);
  redraws.add(drawDriver);
  redraws.add(drawStreams);
  redraws.add(drawRanks);
  redraws.add(drawDiff);
  byId("split-policy").addEventListener("change", drawSplit);
  byId("more-sites").addEventListener("click", () => {
    shownSites = Infinity;
    drawSites();
  });
  byId("search").addEventListener("input", (event) => {
    state.search = event.target.value.trim().toLowerCase();
    drawSites();
    drawFlame();
    panels.forEach((panel) => panel.spans && paint(panel, state.file, state.file.policies[panel.policy], panel.columns));
  });
  byId("page").hidden = false;
  byId("job-sentence").hidden = !DATA.sentence || Boolean(DATA.diff);
  byId("job-sentence").textContent = DATA.sentence;
  byId("unreadable").hidden = !DATA.unreadable.length;
  fill(byId("unreadable"), ...DATA.unreadable.map((text) => make("li", {}, text)));
  await choose(0);
  await Promise.all([drawRanks(), drawDiff()]);
  document.documentElement.setAttribute("data-ready", String(Math.round(performance.now())));
}

start();
