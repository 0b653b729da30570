// The page of a sweep: the answer, small multiples of the files, and the tables.
const FIRST_MULTIPLES = 48;
const FIRST_LINES = 60;
const shown = { multiples: FIRST_MULTIPLES, lines: FIRST_LINES, file: 0 };
let sentences = null;

function drawAnswer() {
  byId("title").textContent = DATA.title;
  byId("sentence").textContent = DATA.sentence;
  byId("unreadable").hidden = !DATA.unreadable.length;
  fill(byId("unreadable"), ...DATA.unreadable.map((text) => make("li", {}, text)));
  const badge = byId("outcome");
  badge.className = `badge ${DATA.outcome}`;
  badge.textContent = { ok: "one setting serves all", oom: "no setting serves all", unknown: "cannot be known" }[DATA.outcome];
  byId("best-text").textContent = DATA.best_sentence;
  fill(byId("best-line"), ...(DATA.best_line ? [make("div", { class: "paste" }, pasteLine(DATA.best_line), make("small", {}, DATA.best_note))] : []));
  const worst = DATA.files[DATA.worst];
  byId("worst-title").textContent = `The worst: ${worst.title}`;
  byId("worst-text").textContent = `${worst.path}: fits under ${count(worst.num_fitting)} of ${count(DATA.settings.length)} settings, ${bytes(worst.peak_live)} live at its peak.`;
  byId("show-worst").addEventListener("click", () => {
    chooseFile(DATA.worst);
    byId("detail").scrollIntoView();
  });
}

function drawMultiples() {
  const place = byId("ranks").querySelector(".multiples");
  const files = heat.files.slice(0, shown.multiples);
  fill(
    place,
    ...files.map((index) => {
      const file = DATA.files[index];
      return make(
        "button", { type: "button", class: "multiple", value: index, "aria-pressed": index === shown.file, onclick: () => chooseFile(index) },
        make("b", {}, file.title), make("br"),
        make("span", { class: `outcome-${file.num_fitting === DATA.settings.length ? "ok" : file.num_fitting ? "unknown" : "oom"}` }, `fits under ${file.num_fitting} of ${DATA.settings.length}`),
        make("canvas", { "aria-hidden": "true" }),
        make("span", { class: "note" }, `live ${bytes(file.peak_live)}`),
      );
    }),
  );
  const top = Math.max(...DATA.settings.map((one) => one.capacity));
  for (const button of place.children) drawMultiple(Number(button.value), button.querySelector("canvas"), top);
  const more = byId("more-ranks");
  more.hidden = heat.files.length <= shown.multiples;
  more.textContent = `Show all ${count(heat.files.length)} files`;
}

function drawMultiple(index, canvas, top) {
  const [ctx, width, height] = smallCanvas(canvas);
  const step = width / DATA.settings.length;
  const y = (size) => height - 1 - (size / top) * (height - 4);
  DATA.settings.forEach((one, setting) => {
    const cell = cellOf(index, setting);
    const isOut = heat.cells.outcome[cell] === 1;
    ctx.fillStyle = isOut ? colour("bad-area") : heat.cells.outcome[cell] === 2 ? colour("unsure-area") : colour(`policy-${one.policy}`);
    const from = y(heat.cells.held[cell]);
    ctx.fillRect(setting * step + Math.min(1, step / 5), from, Math.max(step - Math.min(2, step / 3), 0.7), height - from);
    if (isOut && step >= 7) {
      ctx.fillStyle = colour("bad");
      ctx.font = "bold 11px system-ui, sans-serif";
      ctx.fillText("✕", setting * step + step / 2 - 4, height - 5);
    }
    ctx.fillStyle = colour("soft");
    for (let x = setting * step; x < (setting + 1) * step - 1; x += 5) ctx.fillRect(x, y(one.capacity), 3, 1);
  });
  ctx.fillStyle = colour("recorded");
  ctx.fillRect(0, y(DATA.files[index].peak_live), width, 1.3);
}

async function chooseFile(index) {
  shown.file = index;
  const file = DATA.files[index];
  for (const button of byId("ranks").querySelectorAll(".multiple")) button.setAttribute("aria-pressed", String(Number(button.value) === index));
  byId("detail-title").textContent = file.title;
  byId("detail-text").textContent = `${file.path}: ${count(file.rows)} rows, ${bytes(file.peak_live)} live at the peak. ${file.history ? `History: ${file.history}.` : ""}`;
  if (sentences === null) sentences = DATA.sentences ? new TextDecoder().decode((await load(DATA.sentences)).text).split("\n") : [];
  if (shown.file !== index) return;
  const { outcome, held, failed, driver, retries, waits, calls } = heat.cells;
  const rows = DATA.settings.map((one, setting) => {
    const cell = cellOf(index, setting);
    const at = outcome[cell] === 1 && failed[cell] >= 0 ? ` at row ${count(failed[cell])}` : "";
    const why = sentences[cell] && outcome[cell] ? [make("small", {}, sentences[cell])] : [];
    return [
      make("span", {}, make("span", { class: "dot", colour: colour(`policy-${one.policy}`) }), ` ${one.label}`),
      [bytes(one.capacity), "text"],
      [make("span", { class: `outcome-${OUTCOME_NAMES[outcome[cell]]}` }, `${OUTCOMES[outcome[cell]]}${at}`, ...why), "text"],
      bytes(held[cell]),
      outcome[cell] === 1 ? "-" : bytes(held[cell] - file.peak_live),
      count(retries[cell] + waits[cell]),
      count(calls[cell]),
      milliseconds(driver[cell] < 0 ? null : driver[cell]),
    ];
  });
  fillTable(byId("detail-table"), ["policy", "device", "outcome", "held peak", "over live", "stalls", "driver calls", "driver time"], rows, 3);
}

function drawSettings() {
  const rows = DATA.settings.map((one, place) => ({
    settings: { class: place === DATA.best ? "own" : null },
    cells: [
      make("span", {}, make("span", { class: "dot", colour: colour(`policy-${one.policy}`) }), ` ${one.label}${place === DATA.best ? " (serves all)" : ""}`, make("small", {}, one.description)),
      [bytes(one.capacity), "text"],
      [make("span", { class: `outcome-${one.outcome}` }, one.on_all), "text"],
      ...(one.held ? one.held.map((size) => bytes(size)) : ["-", "-", "-"]),
      milliseconds(one.driver_ms),
      count(one.stalls),
    ],
  }));
  fillTable(byId("settings-table"), ["policy", "device", "on all files", "held, min", "median", "max", "driver time, max", "stalls, max"], rows, 3);
}

function drawCells() {
  const capacity = Number(byId("device").value);
  const settings = DATA.settings.map((one, place) => place).filter((place) => DATA.settings[place].capacity === capacity);
  const rows = heat.files.slice(0, shown.lines).map((file) => [
    DATA.files[file].title,
    bytes(DATA.files[file].peak_live),
    ...settings.map((setting) => [cellText(file, setting), `outcome-${OUTCOME_NAMES[heat.cells.outcome[cellOf(file, setting)]]}`]),
  ]);
  fillTable(byId("cells"), ["file", "live peak", ...settings.map((setting) => DATA.settings[setting].label)], rows);
  byId("cells").caption.textContent = `A size is the held peak on ${bytes(capacity)}; OOM: it runs out of memory; ?: the file cannot tell`;
  const more = byId("more-cells");
  more.hidden = heat.files.length <= shown.lines;
  more.textContent = `Show all ${count(heat.files.length)} files`;
}

function drawFiles() {
  heat.files = orderedFiles();
  drawHeat();
  drawMultiples();
  drawCells();
}

function startMore(id, key, draw) {
  byId(id).addEventListener("click", () => {
    shown[key] = Infinity;
    draw();
  });
}

async function start() {
  startTheme();
  startHeat();
  redraws.add(drawMultiples);
  redraws.add(drawSettings);
  redraws.add(() => chooseFile(shown.file));
  startMore("more-ranks", "multiples", drawMultiples);
  startMore("more-cells", "lines", drawCells);
  byId("order").addEventListener("change", drawFiles);
  byId("device").addEventListener("change", drawCells);
  byId("search").addEventListener("input", (event) => {
    state.search = event.target.value.trim().toLowerCase();
    drawFiles();
  });
  const devices = [...new Set(DATA.settings.map((one) => one.capacity))];
  fill(byId("device"), ...devices.map((size) => make("option", { value: size }, bytes(size))));
  heat.cells = await load(DATA.cells);
  byId("page").hidden = false;
  drawAnswer();
  heat.chosen = [DATA.worst, 0];
  drawFiles();
  drawSettings();
  await chooseFile(DATA.worst);
  document.documentElement.setAttribute("data-ready", String(Math.round(performance.now())));
}

start();
