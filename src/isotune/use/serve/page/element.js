// A new element with its content, a node or text or a list of these, and its attributes.
export function element(name, content, attributes = {}) {
  const node = document.createElement(name);
  node.append(...[content ?? []].flat());
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
