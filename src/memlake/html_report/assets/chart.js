// Charts over the rows of a trace. All of them show the same range of rows and mark the same moment.
const charts = new Set();
let isSpreading = false;
// The distances between marks of the axis of rows: there is no half of a row.
const WHOLE_STEPS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

function setRange(first, last) {
  const file = state.file;
  const begin = Math.max(file.first_row, Math.min(first, last));
  const end = Math.min(Math.max(file.rows - 1, begin + 1), Math.max(first, last));
  state.range = [begin, Math.max(end, begin + 1)];
  isSpreading = true;
  for (const chart of charts) chart.setScale("x", { min: state.range[0], max: state.range[1] });
  isSpreading = false;
  describeTimeline();
}

function zoomBy(factor) {
  const [first, last] = state.range;
  const middle = state.row >= first && state.row <= last ? state.row : (first + last) / 2;
  setRange(middle - (middle - first) * factor, middle + (last - middle) * factor);
}

function panBy(part) {
  const [first, last] = state.range;
  const file = state.file;
  const width = last - first;
  const begin = Math.max(file.first_row, Math.min(first + width * part, file.rows - 1 - width));
  setRange(begin, begin + width);
}

function axis(settings) {
  return {
    stroke: colour("soft"),
    grid: { stroke: colour("grid"), width: 1 },
    ticks: { stroke: colour("grid"), width: 1 },
    font: "12px system-ui, sans-serif",
    ...settings,
  };
}

// Marks of bytes at powers of two, so that they are whole GiB and MiB.
function byteSplits(_chart, _axis, low, high) {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(high - low, 1) / 6)));
  const splits = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) splits.push(value);
  return splits;
}

// A chart of series over rows. A series is {label, values, stroke, fill, dash}; marks are {row, stroke, label}.
function makeChart(place, rows, series, settings = {}) {
  for (const chart of [...charts]) {
    if (chart.root.parentElement === place) {
      chart.destroy();
      charts.delete(chart);
    }
  }
  place.replaceChildren();
  // A line needs two ends, so a single sample is drawn up to the next row.
  if (rows.length === 1) {
    const twice = (values) => (values ? [values[0], values[0]] : values);
    rows = [rows[0], rows[0] + 1];
    series = series.map((one) => ({ ...one, values: twice(one.values), real: twice(one.real) }));
  }
  const width = Math.max(place.clientWidth - 12, 240);
  const show = settings.show || ((value) => bytes(value));
  const marks = settings.marks || [];
  const options = {
    width,
    height: settings.height || (width < 600 ? 240 : 320),
    padding: [18, 14, 0, 4],
    cursor: { drag: { x: true, y: false, setScale: true }, points: { size: 7 } },
    legend: { live: true },
    scales: { x: { time: false, range: () => state.range }, y: { range: (_c, _low, high) => [0, (settings.top || high || 1) * 1.04] } },
    axes: [
      axis({ values: (_chart, splits) => splits.map(shortCount), space: 70, incrs: WHOLE_STEPS }),
      axis({ size: 78, splits: settings.splits === undefined ? byteSplits : settings.splits, values: (_chart, splits) => splits.map(show) }),
    ],
    series: [
      { label: "row", value: (_chart, value) => (value === null ? "-" : count(value)) },
      ...series.map((one) => ({
        label: one.label,
        stroke: one.stroke,
        fill: one.fill,
        dash: one.dash,
        width: one.width || 1.75,
        show: one.show !== false,
        points: { show: false },
        value: (_chart, value, index, at) => (value === null || value === undefined ? "-" : show(one.real && at !== null ? one.real[at] : value)),
        paths: rows.length < 600 ? uPlot.paths.stepped({ align: 1 }) : undefined,
      })),
    ],
    bands: settings.bands,
    hooks: {
      setScale: [
        (chart, key) => {
          if (key !== "x" || isSpreading) return;
          setRange(chart.scales.x.min, chart.scales.x.max);
        },
      ],
      drawClear: [(chart) => drawSteps(chart)],
      draw: [(chart) => drawMarks(chart, marks, settings.limit)],
      ready: [
        (chart) => {
          let pressed = null;
          chart.over.addEventListener("pointerdown", (event) => (pressed = event.clientX));
          chart.over.addEventListener("click", (event) => {
            if (pressed === null || Math.abs(event.clientX - pressed) > 3) return;
            const box = chart.over.getBoundingClientRect();
            showRow(chart.posToVal(event.clientX - box.left, "x"));
          });
          chart.over.addEventListener("dblclick", () => setRange(state.file.first_row, state.file.rows - 1));
        },
      ],
    },
  };
  // Zooming with a drag must reach every chart, so uPlot only reports the range here.
  options.hooks.setSelect = [
    (chart) => {
      if (chart.select.width < 2) return;
      const first = chart.posToVal(chart.select.left, "x");
      const last = chart.posToVal(chart.select.left + chart.select.width, "x");
      chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      setRange(first, last);
    },
  ];
  options.cursor.drag.setScale = false;
  const chart = new uPlot(options, [rows, ...series.map((one) => one.values)], place);
  charts.add(chart);
  return chart;
}

// Alternating bands for the steps of the job, as long as they are wide enough to be seen.
function drawSteps(chart) {
  const { ctx, bbox } = chart;
  const steps = state.file.steps;
  if (!steps.length || steps.length > 4000) return;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 14 * devicePixelRatio, bbox.width, bbox.height + 14 * devicePixelRatio);
  ctx.clip();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  for (const [number, start, stop] of steps) {
    const left = chart.valToPos(start, "x", true);
    const width = chart.valToPos(stop, "x", true) - left;
    if (left > bbox.left + bbox.width || left + width < bbox.left || width < 3) continue;
    ctx.fillStyle = colour("grid");
    ctx.globalAlpha = 0.55;
    if (number % 2) ctx.fillRect(left, bbox.top, width, bbox.height);
    ctx.globalAlpha = 1;
    if (width > 46 * devicePixelRatio) {
      ctx.fillStyle = colour("soft");
      ctx.textAlign = "left";
      ctx.textBaseline = "alphabetic";
      ctx.fillText(`step ${number}`, Math.max(left, bbox.left) + 4, bbox.top - 4 * devicePixelRatio);
    }
  }
  ctx.restore();
}

function drawMarks(chart, marks, limit) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top - 12 * devicePixelRatio, bbox.width, bbox.height + 12 * devicePixelRatio);
  ctx.clip();
  ctx.font = `bold ${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textBaseline = "alphabetic";
  if (limit) {
    const y = chart.valToPos(limit.value, "y", true);
    ctx.strokeStyle = colour("soft");
    ctx.setLineDash([6, 5]);
    line(ctx, bbox.left, y, bbox.left + bbox.width, y);
    ctx.fillStyle = colour("soft");
    // In a narrow chart the right side belongs to the marks of policies that run out of memory.
    const isNarrow = bbox.width < 500 * devicePixelRatio;
    ctx.textAlign = isNarrow ? "left" : "right";
    ctx.fillText(limit.label, isNarrow ? bbox.left + 4 : bbox.left + bbox.width - 4, y + 12 * devicePixelRatio);
    ctx.textAlign = "left";
  }
  ctx.setLineDash([]);
  let used = 0;
  for (const mark of marks) {
    const x = chart.valToPos(mark.row, "x", true);
    ctx.strokeStyle = mark.stroke;
    ctx.lineWidth = 1.5 * devicePixelRatio;
    line(ctx, x, bbox.top, x, bbox.top + bbox.height);
    ctx.fillStyle = mark.stroke;
    const left = x > bbox.left + bbox.width * 0.7;
    ctx.textAlign = left ? "right" : "left";
    ctx.fillText(mark.label, x + (left ? -5 : 5), bbox.top + (34 + 14 * used) * devicePixelRatio);
    used += 1;
  }
  const x = chart.valToPos(state.row, "x", true);
  ctx.strokeStyle = colour("ink");
  ctx.setLineDash([3, 3]);
  ctx.lineWidth = devicePixelRatio;
  line(ctx, x, bbox.top, x, bbox.top + bbox.height);
  ctx.restore();
}

function line(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

// Stacked areas: each series is drawn as the sum of itself and those before it.
function stackedChart(place, rows, parts, settings = {}) {
  const sums = new Float64Array(rows.length);
  const series = parts.map((part) => {
    const values = new Array(rows.length).fill(null);
    for (let i = 0; i < part.values.length; i += 1) {
      sums[i] += part.values[i];
      values[i] = sums[i];
    }
    return { label: part.label, values, real: part.values, stroke: part.colour, fill: part.colour, width: 0.5 };
  });
  // Later series lie behind earlier ones, so they are drawn first.
  return makeChart(place, rows, series.reverse(), settings);
}
