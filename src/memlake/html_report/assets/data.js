// The figures of the page, and its blobs: columns of numbers that are unpacked when they are first needed.
const DATA = JSON.parse(byId("data").textContent);
const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array };
const loaded = new Map();

function load(reference) {
  if (!loaded.has(reference.blob)) loaded.set(reference.blob, unpack(reference));
  return loaded.get(reference.blob);
}

async function unpack(reference) {
  const text = atob(byId(`blob-${reference.blob}`).textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const columns = {};
  let offset = 0;
  for (const [name, type, length] of reference.columns) {
    const end = offset + length * ARRAYS[type].BYTES_PER_ELEMENT;
    columns[name] = new ARRAYS[type](buffer.slice(offset, end));
    offset = end;
  }
  return columns;
}

// What is shown now. `version` grows when another file is chosen, so that late answers for the last one are dropped.
const state = { file: null, version: 0, row: 0, moment: 0, range: [0, 1], hidden: new Set(), search: "" };
