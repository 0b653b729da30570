// The flame graph of the peak: a box per function, as wide as the bytes that it and what it called had live.
const BOX = 19;
const flame = { tree: null, root: 0, selected: -1, boxes: [] };

function startFlame() {
  redraws.add(drawFlame);
  const canvas = byId("flame");
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) rootAt(box.node);
  });
  canvas.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    if (box) byId("flame-text").textContent = nodeText(box.node);
  });
  canvas.addEventListener("keydown", walkFlame);
  byId("flame-view").addEventListener("change", drawFlame);
  byId("flame-frames").addEventListener("change", showFlame);
  byId("flame-reset").addEventListener("click", () => rootAt(0));
}

function showFlame() {
  const found = state.file.peak.flame;
  const hasAll = Boolean(found.all);
  byId("flame-frames-label").hidden = !hasAll;
  flame.tree = hasAll && byId("flame-frames").value === "all" ? found.all : found.python || null;
  flame.root = 0;
  flame.selected = 0;
  if (flame.tree && !flame.tree.children) {
    const { parent } = flame.tree;
    flame.tree.children = parent.map(() => []);
    flame.tree.depth = parent.map(() => 0);
    parent.forEach((above, node) => {
      if (above < 0) return;
      flame.tree.children[above].push(node);
      flame.tree.depth[node] = flame.tree.depth[above] + 1;
    });
  }
  drawFlame();
}

function rootAt(node) {
  flame.root = node;
  flame.selected = node;
  byId("flame-text").textContent = nodeText(node);
  drawFlame();
}

function matches(text) {
  return state.search !== "" && text.toLowerCase().includes(state.search);
}

function nodeColour(node) {
  const { name, file, kind } = flame.tree;
  if (matches(name[node]) || matches(file[node])) return colour("mark");
  let hash = 0;
  for (const character of file[node] || name[node]) hash = (hash * 31 + character.charCodeAt(0)) >>> 0;
  const dark = isDark();
  if (kind[node] === "program") return `hsl(${10 + (hash % 34)} ${dark ? 60 : 78}% ${dark ? 42 + (hash % 7) : 70 + (hash % 9)}%)`;
  if (kind[node] === "torch") return `hsl(${200 + (hash % 24)} ${dark ? 35 : 45}% ${dark ? 38 + (hash % 7) : 76 + (hash % 8)}%)`;
  if (kind[node] === "native") return `hsl(${265 + (hash % 20)} ${dark ? 22 : 30}% ${dark ? 40 : 82}%)`;
  return dark ? "#3b4654" : "#d5dae1";
}

function drawFlame() {
  const canvas = byId("flame");
  canvas.hidden = !flame.tree;
  if (!flame.tree) return;
  const tree = flame.tree;
  const width = Math.max(canvas.clientWidth, 220);
  const lineage = [];
  for (let node = flame.root; node >= 0; node = tree.parent[node]) lineage.unshift(node);
  flame.boxes = [];
  let deepest = 0;
  const place = (node, x, wide) => {
    const waiting = [[node, x, wide]];
    while (waiting.length) {
      const [here, left, room] = waiting.pop();
      flame.boxes.push({ node: here, x: left, wide: room, depth: tree.depth[here] });
      deepest = Math.max(deepest, tree.depth[here]);
      let at = left;
      for (const child of tree.children[here]) {
        const part = (room * tree.bytes[child]) / Math.max(tree.bytes[here], 1);
        if (part >= 0.6) waiting.push([child, at, part]);
        at += part;
      }
    }
  };
  lineage.slice(0, -1).forEach((node) => flame.boxes.push({ node, x: 0, wide: width, depth: tree.depth[node] }));
  place(flame.root, 0, width);
  const height = (deepest + 1) * BOX + 2;
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext("2d");
  ctx.scale(scale, scale);
  ctx.clearRect(0, 0, width, height);
  ctx.font = "12px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  const isFlame = byId("flame-view").value === "flame";
  for (const box of flame.boxes) {
    box.y = isFlame ? height - (box.depth + 1) * BOX : box.depth * BOX + 1;
    ctx.globalAlpha = box.node !== flame.root && lineage.includes(box.node) ? 0.6 : 1;
    ctx.fillStyle = nodeColour(box.node);
    ctx.fillRect(box.x, box.y, Math.max(box.wide - 0.7, 0.5), BOX - 1.2);
    if (box.node === flame.selected) {
      ctx.strokeStyle = colour("ink");
      ctx.lineWidth = 1.6;
      ctx.strokeRect(box.x + 0.8, box.y + 0.8, Math.max(box.wide - 2.3, 1), BOX - 2.8);
    }
    if (box.wide > 32) {
      const isMarked = nodeColour(box.node) === colour("mark");
      ctx.fillStyle = isMarked ? "#1b2330" : colour("ink");
      ctx.save();
      ctx.beginPath();
      ctx.rect(box.x, box.y, box.wide - 3, BOX);
      ctx.clip();
      ctx.fillText(boxText(box.node), box.x + 4, box.y + BOX / 2);
      ctx.restore();
    }
  }
  ctx.globalAlpha = 1;
  if (!byId("flame-text").textContent) byId("flame-text").textContent = nodeText(flame.root);
}

function boxText(node) {
  const file = flame.tree.file[node].split(/[\\/]/).pop();
  return `${flame.tree.name[node]}${file ? `  ${file}` : ""}  ${bytes(flame.tree.bytes[node], 1)}`;
}

function nodeText(node) {
  const tree = flame.tree;
  const file = tree.file[node] ? ` (${tree.file[node]})` : "";
  return `${tree.name[node]}${file}: ${bytes(tree.bytes[node])}, ${share(tree.bytes[node], tree.bytes[0])} of the peak, ${counted(tree.count[node], "allocation")}.`;
}

function boxAt(event) {
  const box = byId("flame").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  return flame.boxes.find((one) => x >= one.x && x < one.x + one.wide && y >= one.y && y < one.y + BOX);
}

function walkFlame(event) {
  const tree = flame.tree;
  if (!tree) return;
  const down = byId("flame-view").value === "icicle" ? "ArrowDown" : "ArrowUp";
  const up = down === "ArrowDown" ? "ArrowUp" : "ArrowDown";
  const here = Math.max(flame.selected, 0);
  const siblings = tree.parent[here] >= 0 ? tree.children[tree.parent[here]] : [here];
  const next = {
    [down]: tree.children[here][0],
    [up]: tree.parent[here],
    ArrowLeft: siblings[siblings.indexOf(here) - 1],
    ArrowRight: siblings[siblings.indexOf(here) + 1],
  }[event.key];
  if (event.key === "Enter") rootAt(here);
  else if (event.key === "Escape") rootAt(0);
  else if (next !== undefined && next >= 0) {
    flame.selected = next;
    byId("flame-text").textContent = nodeText(next);
    drawFlame();
  } else return;
  event.preventDefault();
}
