// The map: draws points into the pixels of a canvas, which takes a few milliseconds for 100,000 of them, without a GPU.
// Places are whole numbers from 0 to GRID. A view is the place in the middle of the canvas, and pixels for each place.

const GRID = 65535, LISTED = 100, REACH = 14; // sentences in the list; CSS pixels around the pointer
const byId = (id) => document.getElementById(id);
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const data = JSON.parse(byId("data").textContent), count = data.sentences.length;
const places = new Uint16Array(bytes(data.places).buffer);
const canvas = byId("map"), context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
const columnsOf = (i) => Object.entries(data.columns).map(([name, values]) => [name, values[i]]);
const asText = (value) => (typeof value === "number" ? number.format(value) : value);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

let groups, colours, shown; // the group of each point; the pixel of each group, and whether the legend shows it
let selection = []; // indexes of points
const isSelected = new Uint8Array(count); // 1 for each point of the selection
let view, fit = 0; // the scale of the whole map
let ratio = 1, width = 0, height = 0, image, pixels, waiting = false; // device pixels for a CSS pixel, and of the canvas

// --- Drawing ---------------------------------------------------------------------------------------------------------
function pixel(hex) {
  const [red, green, blue] = [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

const themed = (name) => pixel(getComputedStyle(document.documentElement).getPropertyValue(name).trim());

function redraw() {
  if (!waiting) requestAnimationFrame(draw);
  waiting = true;
}

function resize() {
  ratio = window.devicePixelRatio || 1;
  width = canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  height = canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
  image = context.createImageData(width, height);
  pixels = new Uint32Array(image.data.buffer);
  fit = (Math.min(width, height) * 0.94) / GRID;
  view.scale = Math.max(view.scale, fit);
  point(-1);
  redraw();
}

function draw() {
  waiting = false;
  const start = performance.now(), spans = []; // half the width of each row of a point, which is a disc
  const radius = Math.min(6, (count > 30000 ? 1.1 : count > 3000 ? 1.8 : 3) * (view.scale / fit) ** 0.35) * ratio;
  for (let row = -Math.floor(radius); row <= radius; row++) spans.push(Math.floor(Math.sqrt(radius ** 2 - row ** 2)));
  pixels.fill(themed("--page"));
  splat(spans, 0, selection.length ? colours.map(() => themed("--faint")) : colours);
  if (selection.length) splat(spans, 1, colours);
  context.putImageData(image, 0, 0);
  canvas.dataset.milliseconds = (performance.now() - start).toFixed(1);
}

function splat(spans, wanted, colours) {
  const reach = (spans.length - 1) / 2, { x, y, scale } = view;
  const left = width / 2 - x * scale, top = height / 2 + y * scale;
  for (let i = 0; i < count; i++) {
    const group = groups[i];
    if (!shown[group] || isSelected[i] !== wanted) continue;
    const column = (places[2 * i] * scale + left) | 0, row = (top - places[2 * i + 1] * scale) | 0;
    if (column < reach || row < reach || column >= width - reach || row >= height - reach) continue;
    for (let k = 0; k < spans.length; k++) {
      const middle = (row + k - reach) * width + column;
      for (let at = middle - spans[k], end = middle + spans[k]; at <= end; at++) pixels[at] = colours[group];
    }
  }
}

// --- Places and the view, in CSS pixels ------------------------------------------------------------------------------
const onScreen = (i) => [
  ((places[2 * i] - view.x) * view.scale + width / 2) / ratio,
  ((view.y - places[2 * i + 1]) * view.scale + height / 2) / ratio,
];
const toPlace = (x, y) => [view.x + (x * ratio - width / 2) / view.scale, view.y - (y * ratio - height / 2) / view.scale];

function move(dx, dy) {
  view.x = clamp(view.x - (dx * ratio) / view.scale, 0, GRID);
  view.y = clamp(view.y + (dy * ratio) / view.scale, 0, GRID);
  redraw();
}

function zoom(factor, x = width / ratio / 2, y = height / ratio / 2) {
  const before = view.scale;
  view.scale = clamp(view.scale * factor, fit, fit * 400);
  const stays = view.scale / before - 1; // the share of its way from the middle that the place at x, y would move
  move((width / ratio / 2 - x) * stays, (height / ratio / 2 - y) * stays);
}

function whole() {
  view = { x: GRID / 2, y: GRID / 2, scale: 0 };
  resize();
}

function nearest(x, y) {
  const [placeX, placeY] = toPlace(x, y);
  let best = -1, least = ((REACH * ratio) / view.scale) ** 2;
  for (let i = 0; i < count; i++) {
    const dx = places[2 * i] - placeX, dy = places[2 * i + 1] - placeY;
    const far = (dx * dx + dy * dy) * (selection.length && !isSelected[i] ? 4 : 1); // a selected point is preferred
    if (far < least && shown[groups[i]]) [best, least] = [i, far];
  }
  return best;
}

function point(i) {
  const tip = byId("tip"), ring = byId("ring"), [x, y] = onScreen(i);
  tip.hidden = ring.hidden = i < 0;
  if (i < 0) return;
  const known = columnsOf(i).filter(([, value]) => value !== null);
  const rows = known.flatMap(([name, value]) => [element("dt", name), element("dd", asText(value).slice(0, 200))]);
  tip.replaceChildren(data.sentences[i].slice(0, 600), element("dl", ...rows));
  const left = clamp(x + 12, 4, Math.max(4, canvas.clientWidth - tip.offsetWidth - 4));
  const below = y + 14 + tip.offsetHeight <= canvas.clientHeight;
  tip.style.translate = `${left}px ${below ? y + 14 : Math.max(4, y - 14 - tip.offsetHeight)}px`;
  ring.style.translate = `${x}px ${y}px`;
}

function element(name, ...content) {
  const made = document.createElement(name);
  made.append(...content);
  return made;
}

// --- Colours ---------------------------------------------------------------------------------------------------------
function colourBy({ name, codes, legend }) {
  groups = bytes(codes);
  colours = legend.map(([, , colour]) => pixel(colour));
  shown = legend.map(() => true);
  const rows = legend.flatMap(([text, members, colour], k) => {
    if (!members) return [];
    const swatch = element("i"), size = element("small", number.format(members));
    const button = element("button", swatch, element("span", text), size);
    swatch.style.background = colour;
    button.title = "Show or hide";
    button.ariaPressed = "true";
    button.onclick = () => {
      shown[k] = !shown[k];
      button.ariaPressed = String(shown[k]);
      redraw();
    };
    return [button];
  });
  byId("legend").replaceChildren(...(name ? [element("h2", name), ...rows] : []));
  redraw();
}

// --- Selection -------------------------------------------------------------------------------------------------------
function select(test, none) {
  selection = Array.from({ length: test ? count : 0 }, (_, i) => i).filter((i) => shown[groups[i]] && test(i));
  isSelected.fill(0);
  for (const i of selection) isSelected[i] = 1;
  byId("chosen").textContent = selection.length ? `${number.format(selection.length)} selected` : none;
  byId("actions").hidden = !selection.length;
  byId("hint").hidden = selection.length > 0;
  const items = selection.slice(0, LISTED).map((i) => {
    const button = element("button", data.sentences[i].slice(0, 300));
    button.onclick = button.onfocus = () => goTo(i);
    return element("li", button);
  });
  if (selection.length > LISTED) items.push(element("li", `and ${number.format(selection.length - LISTED)} more`));
  byId("list").replaceChildren(...items);
  redraw();
}

const isInView = ([x, y]) => x >= 0 && y >= 0 && x <= width / ratio && y <= height / ratio;
const selectInView = () => select((i) => isInView(onScreen(i)), "Nothing in view");

function goTo(i) {
  const [x, y] = onScreen(i);
  if (!isInView([x, y])) move(width / ratio / 2 - x, height / ratio / 2 - y);
  point(i);
}

function search() {
  const text = byId("search").value.trim().toLowerCase();
  select(text && ((i) => data.sentences[i].toLowerCase().includes(text)), text ? "Nothing matches" : "Nothing selected");
}

function save() {
  const rows = selection.map((i) => ({ ...Object.fromEntries(columnsOf(i)), sentence: data.sentences[i] }));
  const link = element("a");
  link.href = URL.createObjectURL(new Blob(rows.map((row) => `${JSON.stringify(row)}\n`)));
  link.download = "selection.jsonl";
  link.click();
}

// --- Pointer and keys ------------------------------------------------------------------------------------------------
const pointers = new Map(); // the fingers or the mouse button that are down: id -> [x, y]
const at = (event) => [event.offsetX, event.offsetY];

canvas.onpointerdown = (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, at(event));
};
canvas.onpointermove = (event) => {
  const before = pointers.get(event.pointerId), [x, y] = at(event);
  if (!before) return point(nearest(x, y));
  point(-1);
  pointers.set(event.pointerId, [x, y]);
  if (pointers.size === 1) return move(x - before[0], y - before[1]);
  const [, other] = [...pointers].find(([id]) => id !== event.pointerId);
  const apart = (place) => Math.hypot(place[0] - other[0], place[1] - other[1]);
  zoom(apart([x, y]) / Math.max(1, apart(before)), (x + other[0]) / 2, (y + other[1]) / 2);
};
canvas.onpointerup = canvas.onpointercancel = (event) => {
  pointers.delete(event.pointerId);
  point(nearest(...at(event)));
};
canvas.onpointerleave = () => point(-1);
canvas.onwheel = (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), ...at(event));
  point(-1);
};
canvas.ondblclick = (event) => zoom(2, ...at(event));

const KEYS = {
  ArrowLeft: () => move(60, 0),
  ArrowRight: () => move(-60, 0),
  ArrowUp: () => move(0, 60),
  ArrowDown: () => move(0, -60),
  "+": () => zoom(1.5),
  "-": () => zoom(1 / 1.5),
  0: whole,
  Enter: selectInView,
};
canvas.onkeydown = (event) => {
  if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  KEYS[event.key]();
  point(nearest(width / ratio / 2, height / ratio / 2));
};

byId("search").oninput = search;
byId("view").onclick = selectInView;
byId("all").onclick = whole;
byId("save").onclick = save;
byId("clear").onclick = () => search((byId("search").value = ""));
byId("colour").append(...data.colourings.map(({ name }) => element("option", name || "nothing")));
byId("colour").onchange = (event) => colourBy(data.colourings[event.target.selectedIndex]);
byId("colour").selectedIndex = Math.min(1, data.colourings.length - 1);
colourBy(data.colourings[byId("colour").selectedIndex]);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(resize).observe(canvas);
whole();
