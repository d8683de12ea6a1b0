// Shows the nearest sentences of a sentence, by the encoders before and after. Nothing is sent.
const { sentences, ...encoders } = JSON.parse(document.getElementById("neighbours").textContent);
const box = document.querySelector(".nearest");
const lists = { before: box.querySelectorAll("ol")[0], after: box.querySelectorAll("ol")[1] };
const wanted = document.getElementById("wanted");
const found = document.getElementById("found");
const MOST_FOUND = 6;

function item(text, cosine) {
  const line = document.createElement("li");
  const number = document.createElement("b");
  number.textContent = cosine.toFixed(2);
  // Its direction is that of its own letters.
  const words = document.createElement("bdi");
  words.textContent = text;
  line.append(number, " ", words);
  return line;
}

function show(number) {
  document.getElementById("chosen").textContent = sentences[number];
  found.replaceChildren();
  for (const [name, list] of Object.entries(lists)) {
    const cosines = encoders[`${name}_cosines`][number];
    list.replaceChildren(...encoders[name][number].map((near, place) => item(sentences[near], cosines[place])));
  }
}

function button(number) {
  const choice = document.createElement("button");
  choice.textContent = sentences[number];
  choice.addEventListener("click", () => show(number));
  const line = document.createElement("li");
  line.append(choice);
  return line;
}

function find() {
  const words = wanted.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text) => words.every((word) => text.toLowerCase().includes(word));
  const numbers = words.length ? [...sentences.keys()].filter((number) => fits(sentences[number])) : [];
  found.replaceChildren(...numbers.slice(0, MOST_FOUND).map(button));
  if (words.length && !numbers.length) found.append("No sentence has these words.");
}

wanted.addEventListener("input", find);
box.hidden = false;
show(encoders.first);
