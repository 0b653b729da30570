// Light and dark: as the system says, or as the reader chose. Charts are drawn again when it changes.
const THEMES = ["auto", "light", "dark"];
const redraws = new Set();
let theme = "auto";

// Asking the styles is slow, and a map asks for each of its blocks.
const knownColours = new Map();

function colour(name) {
  if (!knownColours.has(name)) knownColours.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888");
  return knownColours.get(name);
}

// Returns the context, the width and the height of a small canvas, sharp on every screen.
function smallCanvas(canvas) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth || 190, canvas.clientHeight || 54];
  canvas.width = width * scale;
  canvas.height = height * scale;
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  return [ctx, width, height];
}

const OTHER_POLICIES = ["policy-driver", "policy-direct", "pending", "lent"];

// Two results may have the same policy with other options; they get the colours that no policy has.
function policyColour(file, place) {
  const policy = file.policies[place].policy;
  const twins = file.policies.filter((one) => one.policy === policy);
  const index = twins.indexOf(file.policies[place]);
  if (index > 0) return colour(OTHER_POLICIES[(index - 1) % OTHER_POLICIES.length]);
  return colour(`policy-${policy}`);
}

// Colours for things without an order, such as call sites: far apart on the circle of hues, without red, which is free.
function hueColour(index) {
  const dark = isDark();
  return `hsl(${35 + ((index * 177) % 295)} ${dark ? 55 : 50}% ${dark ? 60 - (index % 3) * 7 : 46 + (index % 3) * 8}%)`;
}

function isDark() {
  if (theme !== "auto") return theme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function redrawAll() {
  knownColours.clear();
  for (const redraw of redraws) redraw();
}

// Paper is light, whatever the screen is.
function printLight() {
  let before = null;
  addEventListener("beforeprint", () => {
    if (!isDark()) return;
    before = theme;
    theme = "light";
    document.documentElement.setAttribute("data-theme", "light");
    redrawAll();
  });
  addEventListener("afterprint", () => {
    if (before === null) return;
    theme = before;
    before = null;
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", theme);
    redrawAll();
  });
}

function startTheme() {
  printLight();
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    byId("theme").textContent = `Theme: ${theme}`;
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", theme);
    redrawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(redrawAll, 120);
  });
}
