// Numbers as text, and elements of the page. Text from a file enters the page through textContent only.
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function bytes(number, digits = 2) {
  if (number === null || number === undefined) return "unknown";
  const sign = number < 0 ? "-" : "";
  let value = Math.abs(number);
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${sign}${Number(value.toFixed(unit === 0 ? 0 : digits))} ${UNITS[unit]}`;
}

function count(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function counted(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

function shortCount(number) {
  if (Math.abs(number) >= 1e6) return `${Number((number / 1e6).toFixed(2))}M`;
  return Math.abs(number) >= 1e4 ? `${Number((number / 1e3).toFixed(1))}k` : String(number);
}

function share(part, whole) {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "-";
}

function milliseconds(number) {
  if (number === null || number === undefined) return "not modelled";
  return number >= 10000 ? `${(number / 1000).toFixed(1)} s` : `${number.toFixed(1)} ms`;
}

function byId(id) {
  return document.getElementById(id);
}

// Makes an element. Children are elements or texts; a text is never read as markup.
function make(tag, settings = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "onclick") element.addEventListener("click", value);
    else if (name === "class") element.className = value;
    else if (name === "colour") element.style.background = value;
    else element.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : String(value));
  }
  for (const child of children) element.append(child instanceof Node ? child : String(child));
  return element;
}

// A line to paste, and a button that copies it. A page from a disk may have no clipboard; the line is selected then.
function pasteLine(text) {
  const code = make("code", {}, text);
  const button = make("button", { type: "button", "aria-label": `Copy ${text}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  });
  return make("div", { class: "line" }, code, button);
}

// Text from a file that may be very long: two lines of it are shown, and all of it while the mouse is over it.
function clamped(tag, text) {
  return make(tag, { class: "clamped", title: text }, text);
}

function fill(element, ...children) {
  element.replaceChildren(...children);
  return element;
}

// Fills a table but for its caption. A cell is a text, an element, or [text, class].
function fillTable(table, headers, rows, numText = 1) {
  const cell = (tag, value, column) => {
    const [content, extra] = Array.isArray(value) ? value : [value, ""];
    const kind = `${column < numText ? "text" : ""} ${extra || ""}`.trim();
    const settings = tag === "th" ? { class: kind || null, scope: "col" } : { class: kind || null };
    return make(tag, settings, content === null || content === undefined ? "-" : content);
  };
  const head = make("thead", {}, make("tr", {}, ...headers.map((name, column) => cell("th", name, column))));
  const body = make("tbody");
  for (const row of rows) {
    const line = make("tr", row.settings || {}, ...(row.cells || row).map((value, column) => cell("td", value, column)));
    body.append(line);
  }
  table.replaceChildren(...[table.caption, head, body].filter(Boolean));
}
