// The parts of the page that are text: the verdict, the advice, and every table.
const OUTCOMES = { ok: "fits", oom: "out of memory", unknown: "cannot be known" };
const FIRST_SITES = 25;
let shownSites = FIRST_SITES;

function drawVerdict() {
  const file = state.file;
  byId("title").textContent = file.name;
  const badge = byId("outcome");
  badge.className = `badge ${file.outcome}`;
  badge.textContent = file.oom ? "ran out of memory" : OUTCOMES[file.outcome];
  byId("verdict-text").textContent = file.verdict;
  const facts = [
    ["file", `${file.source}, ${counted(file.rows, "row")}, ${counted(file.allocations, "allocation")}, ${counted(file.num_streams, "stream")}`],
    ["ran under", file.ran_under ? `${file.ran_under}, torch ${file.torch}` : "not in the file"],
    ["device", file.origin || bytes(file.capacity)],
    ["peak", hasTimeline(file) ? `live ${bytes(file.live_peak)}, held ${file.held_peak === null ? "not in the file" : bytes(file.held_peak)}` : "unknown: the file has no history"],
    ["history", file.history_text],
  ];
  fill(byId("facts"), ...facts.flatMap(([name, text]) => [make("dt", {}, name), make("dd", {}, text)]));
  const advice = file.advice;
  const first = [["Recommended", advice.recommendation], ["With memlake as PyTorch's allocator", advice.with_memlake]];
  const boxes = first.filter(([, one]) => one).map(([kind, one]) => pasteBox(kind, one));
  const others = advice.alternatives.map((one) => pasteBox("Alternative", one));
  if (others.length) boxes.push(make("details", {}, make("summary", {}, counted(others.length, "other setting")), ...others));
  byId("advice-text").textContent = advice.recommendation ? advice.overhead : advice.sentence;
  byId("advice-text").hidden = !byId("advice-text").textContent;
  fill(byId("advice-lines"), ...boxes);
  byId("compared").textContent = file.compared;
}

function pasteBox(kind, setting) {
  return make(
    "div", { class: "paste" },
    make("p", { class: "kind" }, kind),
    pasteLine(setting.line),
    make("small", {}, `Gain: ${setting.gain}.`),
    make("small", {}, `Price: ${setting.price}.`),
    ...(setting.note ? [make("small", {}, `Note: ${setting.note}.`)] : []),
  );
}

function drawPolicies() {
  const file = state.file;
  const rows = file.policies.map((one, place) => {
    const name = make("span", {}, make("span", { class: "dot", colour: policyColour(file, place) }), ` ${one.label}`, make("small", {}, `${one.description}${one.is_own ? "; the job ran under it" : ""}`));
    return {
      settings: { class: one.is_own ? "own" : null },
      cells: [
        name,
        [`${OUTCOMES[one.outcome]}${one.failure ? ` at row ${count(one.failure.row)}` : ""}`, `text outcome-${one.outcome}`],
        bytes(one.peak_held),
        one.over_live === null ? "-" : bytes(one.over_live),
        count(one.stalls),
        count(one.memory_calls),
        milliseconds(one.modelled_driver_ms),
      ],
    };
  });
  fillTable(byId("policies"), ["policy", "outcome", "held peak", "over live", "stalls", "driver calls", "driver time"], rows, 2);
}

function matchingSites(file) {
  const found = new Set();
  file.sites.forEach((site, place) => {
    if (matches(site[0]) || matches(site[1])) found.add(place);
  });
  return found;
}

function drawPeak() {
  const peak = state.file.peak;
  byId("peak-text").textContent = peak.sentence;
  const largest = Math.max(1, ...peak.categories.map((one) => one[1]));
  fill(
    byId("categories"),
    ...(peak.categories.length > 1 || (peak.categories[0] && peak.categories[0][0] !== "unknown") ? peak.categories : []).map(([name, size, rule], place) => {
      const picture = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      picture.setAttribute("aria-hidden", "true");
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      bar.setAttribute("width", `${(100 * size) / largest}%`);
      bar.setAttribute("height", "100%");
      bar.setAttribute("fill", name === "unknown" ? colour("mixed") : hueColour(place + 3));
      picture.append(bar);
      return make("div", { class: "bar", role: "listitem", title: rule }, make("span", {}, name), picture, make("span", { class: "value" }, `${bytes(size)} (${share(size, peak.bytes)})`));
    }),
  );
  drawSites();
}

function drawSites() {
  const peak = state.file.peak;
  const found = peak.sites.filter((one) => !state.search || matches(one.site) || matches(one.file) || Object.keys(one.categories).some(matches));
  const rows = found.slice(0, shownSites).map((one) => {
    const categories = Object.entries(one.categories).sort((a, b) => b[1] - a[1]).map(([name]) => name).join(", ");
    return { cells: [make("span", {}, clamped("span", one.site), ...(one.file ? [clamped("small", one.file)] : [])), [categories, "text"], bytes(one.bytes), share(one.bytes, peak.bytes), count(one.count)] };
  });
  fillTable(byId("sites"), ["call site", "category", "bytes", "share", "allocations"], rows, 2);
  const total = found.reduce((sum, one) => sum + one.bytes, 0);
  byId("search-text").textContent = state.search ? `${count(found.length)} of ${count(peak.sites.length)} call sites match, ${bytes(total)} at the peak. Matching blocks are marked in the address map.` : "";
  const more = byId("more-sites");
  more.hidden = found.length <= shownSites;
  more.textContent = `Show all ${count(found.length)} call sites`;
}

function drawNotes() {
  const file = state.file;
  const texts = [file.history_sentence, file.trust, ...file.notes, file.advice.search].filter(Boolean);
  fill(byId("notes-list"), ...[...new Set(texts)].map((text) => make("li", {}, text)));
}

async function drawSplit() {
  const { file, version } = state;
  const policy = file.policies[Number(byId("split-policy").value) || 0];
  byId("split").hidden = !policy.map && !file.at_end;
  byId("split-chart").hidden = !policy.map || !hasTimeline(file);
  if (policy.map) {
    const [split, all] = await Promise.all([load(policy.map.split), load(file.moments)]);
    if (version !== state.version) return;
    const rows = Array.from(all.row).slice(0, policy.map.moments);
    const colours = { requested: "live", rounding: "rounding", pending: "pending", external: "free", cached: "cached" };
    const parts = Object.keys(file.parts).map((name) => ({ label: name === "external" ? "scattered" : name, values: Array.from(split[name]), colour: colour(colours[name]) }));
    if (hasTimeline(file)) stackedChart(byId("split-chart"), rows, parts, { marks: [] });
    let worst = 0;
    split.external.forEach((value, place) => (worst = value > split.external[worst] ? place : worst));
    const meanings = Object.entries(file.parts).map(([name, text]) => `${name === "external" ? "scattered" : name}: ${text}`).join("; ");
    byId("split-text").textContent = `Under ${policy.label} at most ${bytes(split.external[worst] || 0)} were scattered, after row ${count(rows[worst] || 0)}. ${meanings}.`;
  }
  const end = byId("at-end");
  end.hidden = !file.at_end;
  if (file.at_end) {
    const whole = file.at_end.reduce((sum, part) => sum + (part[1] || 0), 0);
    fillTable(end, ["held at end", "what it is", "bytes", "share"], file.at_end.map(([name, size, text]) => [name, [text, "text"], bytes(size), size === null ? "-" : share(size, whole)]), 2);
  }
}

async function drawDriver() {
  const { file, version } = state;
  const columns = await load(file.series);
  const timelines = await Promise.all(file.policies.map((one) => load(one.timeline)));
  if (version !== state.version) return;
  const rows = Array.from(columns.row);
  const series = file.policies
    .map((one, place) => ({ one, label: one.label, values: inBytes(timelines[place].driver_ms, 1, rows.length), stroke: policyColour(file, place) }))
    .filter(({ one }) => one.modelled_driver_ms !== null);
  // One policy may take a hundred times as long as the others, and would flatten them.
  const times = series.map(({ one }) => one.modelled_driver_ms).sort((a, b) => a - b);
  const middle = times[Math.floor((times.length - 1) / 2)] || 1;
  const hidden = series.filter(({ one }) => one.modelled_driver_ms > 20 * middle);
  for (const one of hidden) one.show = false;
  const top = Math.max(1, ...series.filter((one) => one.show !== false).map(({ one }) => one.modelled_driver_ms));
  byId("driver-chart").hidden = !hasTimeline(file);
  if (hasTimeline(file)) makeChart(byId("driver-chart"), rows, series, { show: milliseconds, splits: null, height: 220, top });
  const left = hidden.length ? ` ${hidden.map((one) => one.label).join(" and ")} would flatten the others; click its name to see it.` : "";
  byId("driver-text").textContent = `All driver time up to each row. ${series.map(({ one }) => `${one.label} ${milliseconds(one.modelled_driver_ms)}`).join(", ")}.${left}`;
  const names = [...new Set(file.policies.flatMap((one) => Object.keys(one.driver_calls)))].sort();
  const lines = names.map((name) => [name, ...file.policies.map((one) => (one.driver_calls[name] ? count(one.driver_calls[name]) : "-"))]);
  lines.push(["longest single request", ...file.policies.map((one) => milliseconds(one.longest_request_ms))]);
  lines.push(["retries after releasing all caches", ...file.policies.map((one) => count(one.num_alloc_retries))]);
  lines.push(["waits of the host", ...file.policies.map((one) => count(one.host_waits))]);
  fillTable(byId("calls"), ["", ...file.policies.map((one) => one.label)], lines);
}

async function drawStreams() {
  const { file, version } = state;
  const columns = await load(file.series);
  const lives = await Promise.all(file.streams.map((one) => load(one.live)));
  if (version !== state.version) return;
  const rows = Array.from(columns.row);
  const name = (one) => (one.stream === null ? "other streams" : `stream ${one.stream}`);
  const parts = file.streams.map((one, place) => ({ label: name(one), values: inBytes(lives[place].live, file.unit, rows.length), colour: hueColour(place + 1) }));
  const isDrawn = file.streams.length > 1 && hasTimeline(file);
  byId("streams-chart").hidden = !isDrawn;
  if (isDrawn) stackedChart(byId("streams-chart"), rows, parts, { height: 220 });
  byId("streams-text").textContent = file.streams.length > 1 ? "Live memory by the stream that asked for it." : "All requests are on one stream.";
  fillTable(byId("streams-table"), ["stream", "allocations", "live peak"], file.streams.map((one) => [name(one), count(one.allocations), bytes(one.peak)]));
  const pools = Object.entries(file.pools);
  byId("pools-table").hidden = !pools.length;
  fillTable(byId("pools-table"), ["private pool", "held"], [...pools.map(([pool, held]) => [pool, bytes(held)]), ["free in all of them", bytes(file.free_in_pools)]]);
  byId("steps-table").hidden = !file.steps.length;
  fillTable(byId("steps-table"), ["step", "rows", "live peak", "live at its end"], file.steps.slice(0, 500).map((step) => [step[0], `${count(step[1])} to ${count(step[2] - 1)}`, bytes(step[3]), bytes(step[4])]));
}
