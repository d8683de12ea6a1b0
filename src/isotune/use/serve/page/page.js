// The page at the server's root. Texts go to this server only, and nothing is stored.

const MOST_TEXTS = 60; // of a heat map: its cells are elements of the page
const MOST_NUMBERS = 10; // texts of a heat map whose cells show their numbers
const MOST_LABELS = 20; // texts of a heat map whose rows show their texts
const SNIPPET = 240; // characters of a passage that are shown at first
const BEFORE = 40; // characters of a snippet before the first word that fits
const TITLES = ["title", "name", "heading"]; // columns that name a row
const LINKS = ["url", "link", "href"]; // columns with the address of a row

const $ = (id) => document.getElementById(id);
let models = [];

// A new element with its content, a node or text or a list of these, and its attributes.
function element(name, content, attributes = {}) {
  const node = document.createElement(name);
  node.append(...[content].flat());
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

async function ask(path, body) {
  const headers = {};
  if ($("key").value) headers.authorization = `Bearer ${$("key").value}`;
  if (body) headers["content-type"] = "application/json";
  const response = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error.message);
  return answer;
}

// Runs an action, and shows its error.
async function attempt(action) {
  $("error").textContent = "";
  await action().catch(({ message }) => {
    $("error").textContent = message;
    $("error").scrollIntoView({ block: "nearest" });
  });
}

async function start() {
  const health = await ask("health");
  $("key-form").hidden = !health.keys;
  if (health.keys && !$("key").value) {
    $("encoders").textContent = "This server needs an API key.";
    return;
  }
  models = (await ask("v1/models")).data;
  $("encoders").textContent = `Encoders: ${models.map((model) => model.id).join(", ")}.`;
  $("search-section").hidden = !health.index;
  $("compare").open = !health.index;
  if (health.index) $("query").focus();
}

async function compare() {
  const body = { first: [$("first").value], second: [$("second").value] };
  const answers = await Promise.all(models.map((model) => ask("similarity", { ...body, model: model.id })));
  const bars = answers.map(({ model, similarities: [[cosine]] }) => {
    const meter = element("meter", [], { min: 0, max: 1, value: Math.max(0, cosine), "aria-label": `cosine by ${model}` });
    return element("div", [element("span", model), meter, element("b", cosine.toFixed(3))], { class: "bar" });
  });
  $("pair-result").replaceChildren(...bars);
}

async function compareList() {
  const texts = $("texts").value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (texts.length < 2 || texts.length > MOST_TEXTS) {
    const got = `${texts.length} ${texts.length === 1 ? "sentence" : "sentences"}`;
    throw new Error(`${got}; write 2 to ${MOST_TEXTS}, one a line`);
  }
  const answers = await Promise.all(models.map((model) => ask("similarity", { first: texts, model: model.id })));
  const maps = answers.map(({ model, similarities }) => drawMap(model, texts, similarities));
  $("list-result").replaceChildren(element("div", maps, { class: "maps" }));
}

// A heat map of an encoder's similarities, and the clusters at a threshold that the reader moves.
function drawMap(model, texts, similarities) {
  const map = element("section", element("h3", model), { class: "map", "aria-label": model });
  const heat = element("table", [], { class: "heat", "aria-label": `Similarities by ${model}; arrow keys move` });
  const said = element("p", "", { class: "said", "aria-live": "polite" });
  const id = `threshold-${models.findIndex((other) => other.id === model)}`;
  const slider = element("input", [], { id, type: "range", min: -0.2, max: 1, step: 0.01 });
  const values = similarities.flatMap((row, i) => row.slice(i + 1)).sort((a, b) => a - b); // of different texts
  slider.value = values[Math.floor(0.84 * values.length)];
  const label = element("label", "", { for: id });
  const clusters = element("ol", [], { class: "clusters" });
  const update = () => {
    label.textContent = `Together from a mean cosine of ${Number(slider.value).toFixed(2)}`;
    const groups = cluster(similarities, Number(slider.value));
    fillHeat(heat, said, texts, similarities, groups.flat());
    clusters.replaceChildren(
      ...groups.map((group) => element("li", element("ul", group.map((i) => element("li", texts[i]))))),
    );
  };
  slider.addEventListener("input", update);
  update();
  map.append(heat, said, label, slider, clusters);
  return map;
}

function fillHeat(heat, said, texts, similarities, order) {
  heat.replaceChildren(
    ...order.map((i) =>
      element("tr", [...label(texts[i], order.length), ...order.map((j) => {
        const cosine = similarities[i][j];
        const level = Math.min(1, Math.max(0, cosine));
        const cell = element("td", order.length <= MOST_NUMBERS ? cosine.toFixed(2) : "", { tabindex: -1 });
        cell.style.setProperty("--level", level);
        cell.classList.toggle("strong", level > 0.55);
        const say = () => { said.textContent = `${cosine.toFixed(3)}: ${texts[i]} / ${texts[j]}`; };
        cell.addEventListener("focus", say);
        cell.addEventListener("mouseenter", say);
        return cell;
      })]),
    ),
  );
  heat.querySelector("td").tabIndex = 0;
  heat.onkeydown = (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
    if (down === undefined) return;
    const row = event.target.parentNode;
    const column = [...row.querySelectorAll("td")].indexOf(event.target);
    const next = heat.rows[row.rowIndex + down]?.querySelectorAll("td")[column + right];
    event.preventDefault();
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  };
}

// The label of a row of a heat map, if the rows are high enough for text.
function label(text, count) {
  return count <= MOST_LABELS ? [element("th", text, { scope: "row", title: text })] : [];
}

// Average linkage: joins the two clusters with the largest mean similarity, as long as it reaches the threshold.
function cluster(similarities, threshold) {
  const groups = similarities.map((_, i) => [i]);
  const mean = (a, b) => a.flatMap((i) => b.map((j) => similarities[i][j])).reduce((sum, x) => sum + x) / (a.length * b.length);
  for (;;) {
    const pairs = groups.flatMap((a, k) => groups.slice(0, k).map((b) => [mean(a, b), a, b]));
    const [value, a, b] = pairs.reduce((best, pair) => (pair[0] > best[0] ? pair : best), [-2]);
    if (value < threshold) return groups.sort((a, b) => b.length - a.length);
    a.push(...groups.splice(groups.indexOf(b), 1)[0]);
  }
}

async function search() {
  const query = $("query").value;
  const body = { query, where: $("where").value || null, hybrid: $("hybrid").checked };
  const { hits } = await ask("search", body);
  const items = hits.map((hit) => drawHit(hit, pattern(query)));
  $("search-result").replaceChildren(...(items.length ? items : [element("p", "No row fits.")]));
}

// A row that was found: its title and link, its text, and its other columns.
function drawHit(hit, words) {
  const columns = new Map(Object.entries(hit.columns));
  const title = taken(columns, TITLES);
  const link = taken(columns, LINKS, (value) => /^https?:\/\//i.test(value));
  const parts = [passage(hit.text, words)];
  if (title) parts.unshift(element("div", linked(title, link), { class: "title" }));
  if (link && !title) parts.push(element("div", linked(link, link)));
  const rest = [...columns].map(([name, value]) => `${name}: ${value}`);
  const details = [`cosine ${hit.cosine.toFixed(3)}`, hit.id, ...rest].join(" · ");
  return element("li", [...parts, element("div", details, { class: "soft" })]);
}

// The value of the first column that has one of the names and a value that fits; the column is then removed.
function taken(columns, names, fits = (value) => value) {
  const name = [...columns.keys()].find((column) => names.includes(column.toLowerCase()) && fits(columns.get(column)));
  const value = columns.get(name);
  columns.delete(name);
  return value && String(value);
}

// A text as a link, if there is an address.
function linked(text, address) {
  if (!address) return text;
  return element("a", text, { href: address, rel: "noopener noreferrer", target: "_blank" });
}

// A pattern of the words of a query. Short words are left out if there are longer ones. Without words, it fits nowhere.
function pattern(query) {
  const words = query.match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  const long = words.filter((word) => word.length > 3);
  const chosen = long.length ? long : words;
  return new RegExp(`(?<![\\p{L}\\p{M}\\p{N}])(${chosen.join("|") || "$^"})(?![\\p{L}\\p{M}\\p{N}])`, "giu");
}

// A text with its words marked. A long text is a snippet, which a click unfolds.
function passage(text, words) {
  if (text.length <= SNIPPET) return element("div", marked(text, words), { class: "text" });
  const short = element("span", marked(snippet(text, words), words), { class: "snippet" });
  const summary = element("summary", [short, element("span", "Show less", { class: "less soft" })]);
  return element("details", [summary, element("div", marked(text, words), { class: "text" })], { class: "passage" });
}

// The part of a text that has most of the different words.
function snippet(text, words) {
  const found = [...text.matchAll(words)].map((match) => ({ place: match.index, word: match[0].toLowerCase() }));
  const within = (place) => found.filter((other) => other.place >= place && other.place < place + SNIPPET - BEFORE);
  const count = ({ place }) => new Set(within(place).map(({ word }) => word)).size;
  const best = found.reduce((first, next) => (count(next) > count(first) ? next : first), found[0] ?? { place: 0 });
  const start = Math.max(0, Math.min(best.place - BEFORE, text.length - SNIPPET));
  const part = text.slice(start, start + SNIPPET);
  // A word that is cut at an end is left out, where the text has spaces.
  const first = start ? part.replace(/^(\S* (?=\S))?/u, "… ") : part;
  return start + SNIPPET < text.length ? first.replace(/( \S*)?$/u, " …") : first;
}

// The parts of a text, where the words are in elements that mark them.
function marked(text, words) {
  return text.split(words).map((part, place) => (place % 2 ? element("mark", part) : part));
}

for (const [id, action] of Object.entries({ "key-form": start, pair: compare, list: compareList, search })) {
  $(id).addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(action);
  });
}
await attempt(start);
