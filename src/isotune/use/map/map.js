// The map: draws points into the pixels of a canvas, which takes a few milliseconds for 100,000 of them, without a GPU.
// Places are whole numbers from 0 to GRID. A view is the place in the middle of the canvas, and pixels for each place.
"use strict";

const GRID = 65535, CELLS = 128, CELL = (GRID + 1) / CELLS;
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c564b", "#9467bd"];
const OTHER = "#8a8f96", LOW = [0, 114, 178], MIDDLE = [150, 150, 150], HIGH = [213, 94, 0];
const LISTED = 100, REACH = 14; // sentences in the list; CSS pixels around the pointer

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
byId("data").remove();
const count = data.sentences.length;
const places = new Uint16Array(Uint8Array.from(atob(data.places), (letter) => letter.charCodeAt(0)).buffer);
const canvas = byId("map"), context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
const tip = byId("tip"), stage = byId("stage"), number = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });

const colours = new Uint32Array(count); // of each point, as pixels have them
const shown = new Uint8Array(count).fill(1); // 0 where the legend has switched a point's value off
const selected = new Uint8Array(count);
let selection = []; // the indexes of the selected points
let view = { x: GRID / 2, y: GRID / 2, scale: 1 };
let fit = 1, ratio = 1, width = 0, height = 0; // the scale of the whole map; device pixels for a CSS pixel, and of the canvas
let image = null, pixels = null, pointed = -1, polygon = null, byKeys = false, waiting = false;

// --- Drawing ---------------------------------------------------------------------------------------------------------

const pixel = (red, green, blue) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
const channels = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function redraw() {
  if (!waiting) {
    waiting = true;
    requestAnimationFrame(draw);
  }
}

function resize() {
  const whole = fit === view.scale;
  ratio = window.devicePixelRatio || 1;
  width = canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  height = canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  image = context.createImageData(width, height);
  pixels = new Uint32Array(image.data.buffer);
  fit = (Math.min(width, height) * 0.94) / GRID;
  if (whole) view.scale = fit;
  redraw();
}

function radius() {
  const base = count > 30000 ? 1.1 : count > 3000 ? 1.8 : 3;
  return Math.min(6, base * Math.pow(view.scale / fit, 0.35)) * ratio;
}

function draw() {
  waiting = false;
  const start = performance.now();
  pixels.fill(pixel(...channels(themed("--page"))));
  const spans = disc(radius());
  if (selection.length) {
    splat(spans, 0, pixel(...channels(themed("--faint"))));
    splat(spans, 1);
  } else {
    splat(spans, 0);
  }
  context.putImageData(image, 0, 0);
  canvas.dataset.milliseconds = (performance.now() - start).toFixed(1);
  drawMarks();
}

// Half the width of each row of a disc.
function disc(size) {
  const spans = [];
  for (let row = -Math.floor(size); row <= size; row++) spans.push(Math.floor(Math.sqrt(size * size - row * row)));
  return spans;
}

function splat(spans, wanted, colour) {
  const reach = (spans.length - 1) / 2, { x, y, scale } = view;
  const left = width / 2 - x * scale, top = height / 2 + y * scale;
  for (let i = 0; i < count; i++) {
    if (!shown[i] || selected[i] !== wanted) continue;
    const column = (places[2 * i] * scale + left) | 0, row = (top - places[2 * i + 1] * scale) | 0;
    if (column < reach || row < reach || column >= width - reach || row >= height - reach) continue;
    const value = colour === undefined ? colours[i] : colour;
    for (let k = 0; k < spans.length; k++) {
      const middle = (row + k - reach) * width + column;
      for (let at = middle - spans[k], end = middle + spans[k]; at <= end; at++) pixels[at] = value;
    }
  }
}

function drawMarks() {
  context.strokeStyle = context.fillStyle = themed("--text");
  context.lineWidth = 1.5 * ratio;
  if (polygon) {
    context.beginPath();
    for (const [x, y] of polygon) context.lineTo(x * ratio, y * ratio);
    context.closePath();
    context.stroke();
  }
  if (byKeys) {
    for (const [dx, dy] of [[8, 0], [0, 8]]) {
      context.beginPath();
      context.moveTo(width / 2 - dx * ratio, height / 2 - dy * ratio);
      context.lineTo(width / 2 + dx * ratio, height / 2 + dy * ratio);
      context.stroke();
    }
  }
  if (pointed >= 0) {
    const [x, y] = onScreen(pointed);
    context.beginPath();
    context.arc(x * ratio, y * ratio, radius() + 3 * ratio, 0, 2 * Math.PI);
    context.stroke();
  }
}

// --- Places and the view ---------------------------------------------------------------------------------------------

// A point on the canvas, in CSS pixels.
function onScreen(i) {
  return [
    ((places[2 * i] - view.x) * view.scale + width / 2) / ratio,
    ((view.y - places[2 * i + 1]) * view.scale + height / 2) / ratio,
  ];
}

function toPlace(x, y) {
  return [view.x + (x * ratio - width / 2) / view.scale, view.y - (y * ratio - height / 2) / view.scale];
}

function move(dx, dy) {
  view.x = clamp(view.x - (dx * ratio) / view.scale, 0, GRID);
  view.y = clamp(view.y + (dy * ratio) / view.scale, 0, GRID);
  redraw();
}

function zoom(factor, x = width / ratio / 2, y = height / ratio / 2) {
  const [placeX, placeY] = toPlace(x, y);
  view.scale = clamp(view.scale * factor, fit, fit * 400);
  const [nowX, nowY] = toPlace(x, y);
  view.x = clamp(view.x + placeX - nowX, 0, GRID);
  view.y = clamp(view.y + placeY - nowY, 0, GRID);
  redraw();
}

function whole() {
  view = { x: GRID / 2, y: GRID / 2, scale: fit };
  redraw();
}

const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

// The points of each cell of a grid over the map, so that few points are looked at for the pointer.
const cellOf = (i) => (places[2 * i] / CELL | 0) + CELLS * (places[2 * i + 1] / CELL | 0);
const starts = new Uint32Array(CELLS * CELLS + 1), sorted = new Uint32Array(count);
for (let i = 0; i < count; i++) starts[cellOf(i) + 1]++;
for (let cell = 0; cell < CELLS * CELLS; cell++) starts[cell + 1] += starts[cell];
const free = starts.slice();
for (let i = 0; i < count; i++) sorted[free[cellOf(i)]++] = i;

function nearest(x, y) {
  const [placeX, placeY] = toPlace(x, y), reach = (REACH * ratio) / view.scale;
  const cell = (value) => clamp(Math.floor(value / CELL), 0, CELLS - 1);
  let best = -1, least = reach * reach;
  for (let row = cell(placeY - reach); row <= cell(placeY + reach); row++) {
    const first = starts[row * CELLS + cell(placeX - reach)], end = starts[row * CELLS + cell(placeX + reach) + 1];
    for (let k = first; k < end; k++) {
      const i = sorted[k], dx = places[2 * i] - placeX, dy = places[2 * i + 1] - placeY;
      const far = selection.length && !selected[i] ? 4 : 1; // a selected point is preferred
      if (shown[i] && (dx * dx + dy * dy) * far < least) {
        least = (dx * dx + dy * dy) * far;
        best = i;
      }
    }
  }
  return best;
}

function point(i) {
  if (i !== pointed) {
    pointed = i;
    redraw();
  }
  tip.hidden = i < 0;
  if (i < 0) return;
  const facts = Object.entries(data.columns).filter(([, values]) => values[i] !== null);
  const list = document.createElement("dl");
  for (const [name, values] of facts) list.append(element("dt", name), element("dd", asText(values[i])));
  tip.replaceChildren(document.createTextNode(data.sentences[i].slice(0, 600)), ...(facts.length ? [list] : []));
  const [x, y] = onScreen(i);
  tip.style.left = `${clamp(x + 12, 4, Math.max(4, stage.clientWidth - tip.offsetWidth - 4))}px`;
  tip.style.top = `${y + 14 + tip.offsetHeight > stage.clientHeight ? Math.max(4, y - 14 - tip.offsetHeight) : y + 14}px`;
}

const asText = (value) => (typeof value === "number" ? number.format(value) : value.slice(0, 200));

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

// --- Colours ---------------------------------------------------------------------------------------------------------

function describe(name) {
  const values = data.columns[name], counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  const known = values.filter((value) => value !== null);
  const numeric = known.length && known.every((value) => typeof value === "number");
  const largest = [...counts].sort((a, b) => b[1] - a[1]);
  return { name, values, largest, scale: numeric && counts.size > PALETTE.length };
}

function colourBy(column) {
  byId("legend").replaceChildren();
  shown.fill(1);
  if (!column) colours.fill(pixel(...channels(PALETTE[0])));
  else if (column.scale) colourByScale(column);
  else colourByValue(column);
  redraw();
}

function colourByScale({ name, values }) {
  const known = values.filter((value) => value !== null);
  const low = known.reduce((a, b) => Math.min(a, b)), high = known.reduce((a, b) => Math.max(a, b));
  const blend = (share) => {
    const [from, to, at] = share < 0.5 ? [LOW, MIDDLE, 2 * share] : [MIDDLE, HIGH, 2 * share - 1];
    return from.map((value, k) => Math.round(value + (to[k] - value) * at));
  };
  values.forEach((value, i) => {
    colours[i] = value === null ? pixel(...channels(OTHER)) : pixel(...blend((value - low) / (high - low || 1)));
  });
  const bar = element("div", ""), ends = element("div", "");
  bar.className = "scale";
  bar.style.background = `linear-gradient(to right, ${[LOW, MIDDLE, HIGH].map((rgb) => `rgb(${rgb})`)})`;
  ends.className = "ends";
  ends.append(element("span", number.format(low)), element("span", number.format(high)));
  byId("legend").append(element("h2", name), bar, ends);
}

function colourByValue({ name, values, largest }) {
  const named = largest.slice(0, largest.length > PALETTE.length ? PALETTE.length - 1 : PALETTE.length);
  const groups = new Map(named.map(([value], k) => [value, k]));
  const rows = named.map(([value, members], k) => [value === null ? "none" : String(value), members, PALETTE[k]]);
  const rest = largest.slice(named.length).reduce((sum, [, members]) => sum + members, 0);
  if (rest) rows.push([`${largest.length - named.length} others`, rest, OTHER]);
  const group = values.map((value) => groups.get(value) ?? named.length);
  group.forEach((k, i) => (colours[i] = pixel(...channels(rows[k][2]))));
  byId("legend").append(element("h2", name));
  rows.forEach(([text, members, colour], k) => {
    const button = element("button", ""), swatch = element("i", "");
    swatch.style.background = colour;
    button.setAttribute("aria-pressed", "true");
    button.title = "Show or hide";
    button.append(swatch, element("span", text), element("small", number.format(members)));
    button.onclick = () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      group.forEach((other, i) => {
        if (other === k) shown[i] = on ? 1 : 0;
      });
      redraw();
    };
    byId("legend").append(button);
  });
}

// --- Selection -------------------------------------------------------------------------------------------------------

function select(indexes, none) {
  selection = indexes;
  selected.fill(0);
  for (const i of indexes) selected[i] = 1;
  byId("chosen").textContent = indexes.length ? `${number.format(indexes.length)} selected` : none;
  byId("actions").hidden = !indexes.length;
  byId("hint").hidden = indexes.length > 0;
  const items = indexes.slice(0, LISTED).map((i) => {
    const item = document.createElement("li"), button = element("button", data.sentences[i].slice(0, 300));
    button.onclick = button.onfocus = () => goTo(i);
    item.append(button);
    return item;
  });
  if (indexes.length > LISTED) items.push(element("li", `and ${number.format(indexes.length - LISTED)} more`));
  byId("list").replaceChildren(...items);
  redraw();
}

function goTo(i) {
  const [x, y] = onScreen(i);
  if (x < 0 || y < 0 || x > width / ratio || y > height / ratio) {
    view.x = places[2 * i];
    view.y = places[2 * i + 1];
  }
  point(i);
  redraw();
}

const every = (test) => Array.from({ length: count }, (_, i) => i).filter((i) => shown[i] && test(i));

let lowered = null;
function search() {
  const text = byId("search").value.trim().toLowerCase();
  lowered ??= data.sentences.map((sentence) => sentence.toLowerCase());
  select(text ? every((i) => lowered[i].includes(text)) : [], text ? "Nothing matches" : "Nothing selected");
}

function selectInside(border) {
  const corners = border.map(([x, y]) => toPlace(x, y));
  select(every((i) => inside(corners, places[2 * i], places[2 * i + 1])), "Nothing in the lasso");
}

function inside(corners, x, y) {
  let within = false;
  for (let k = 0, last = corners.length - 1; k < corners.length; last = k++) {
    const [x1, y1] = corners[k], [x2, y2] = corners[last];
    if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) within = !within;
  }
  return within;
}

function save() {
  const clean = (value) => (value === null ? "" : String(value).replace(/[\t\r\n]+/g, " "));
  const columns = Object.entries(data.columns).filter(([name]) => name !== "sentence");
  const lines = [["sentence", ...columns.map(([name]) => clean(name))]];
  for (const i of selection) lines.push([clean(data.sentences[i]), ...columns.map(([, values]) => clean(values[i]))]);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.map((line) => line.join("\t")).join("\n") + "\n"]));
  link.download = "selection.tsv";
  link.click();
  URL.revokeObjectURL(link.href);
}

// --- Pointer and keys ------------------------------------------------------------------------------------------------

const pointers = new Map(); // the fingers or the mouse button that are down: id -> [x, y]
const at = (event) => [event.offsetX, event.offsetY];
let lasso = false;

function setLasso(on) {
  lasso = on;
  byId("lasso").setAttribute("aria-pressed", String(on));
}

canvas.onpointerdown = (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, at(event));
  byKeys = false;
  polygon = (lasso || event.shiftKey) && pointers.size === 1 ? [at(event)] : null;
};
canvas.onpointermove = (event) => {
  const before = pointers.get(event.pointerId), [x, y] = at(event);
  if (!before) return point(nearest(x, y));
  point(-1);
  pointers.set(event.pointerId, [x, y]);
  if (polygon) {
    polygon.push([x, y]);
    redraw();
  } else if (pointers.size === 1) {
    move(x - before[0], y - before[1]);
  } else {
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    const apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]);
    zoom(apart([x, y]) / Math.max(1, apart(before)), (x + other[0]) / 2, (y + other[1]) / 2);
  }
};
canvas.onpointerup = canvas.onpointercancel = (event) => {
  pointers.delete(event.pointerId);
  const border = polygon;
  polygon = null;
  if (border && border.length > 2) {
    selectInside(border);
    setLasso(false);
  }
  point(border ? -1 : nearest(...at(event)));
  redraw();
};
canvas.onpointerleave = () => point(-1);
canvas.onwheel = (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...at(event));
  point(-1);
};
canvas.ondblclick = (event) => zoom(2, ...at(event));

const STEP = 60; // CSS pixels for a press of an arrow key
const KEYS = {
  ArrowLeft: () => move(STEP, 0),
  ArrowRight: () => move(-STEP, 0),
  ArrowUp: () => move(0, STEP),
  ArrowDown: () => move(0, -STEP),
  "+": () => zoom(1.5),
  "=": () => zoom(1.5),
  "-": () => zoom(1 / 1.5),
  0: whole,
  Enter: () => selectInside([[0, 0], [width / ratio, 0], [width / ratio, height / ratio], [0, height / ratio]]),
};
canvas.onkeydown = (event) => {
  if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  byKeys = true;
  KEYS[event.key]();
  point(nearest(width / ratio / 2, height / ratio / 2));
};
canvas.onblur = () => {
  byKeys = false;
  redraw();
};

let typing = 0;
byId("search").oninput = () => {
  clearTimeout(typing);
  typing = setTimeout(search, 120);
};
byId("lasso").onclick = () => setLasso(!lasso);
byId("all").onclick = whole;
byId("save").onclick = save;
byId("clear").onclick = () => {
  byId("search").value = "";
  select([], "Nothing selected");
  canvas.focus();
};

// A text that nearly every row has for itself, such as an address, has no use as a colour.
const columns = Object.keys(data.columns).map(describe);
const colourful = columns.filter(({ scale, largest }) => largest.length > 1 && (scale || largest.length <= count / 2));
byId("colour").append(...["nothing", ...colourful.map(({ name }) => name)].map((name) => element("option", name)));
byId("colour-by").hidden = !colourful.length;
byId("colour").onchange = (event) => colourBy(colourful[event.target.selectedIndex - 1]);
byId("colour").selectedIndex = colourful.length ? 1 : 0;
colourBy(colourful[0]);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(resize).observe(canvas);
view.scale = fit;
resize();
