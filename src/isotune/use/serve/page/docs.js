// Shows /openapi.json: each operation with the fields of its request and of its answer.

import { element } from "/element.js";

const openapi = await (await fetch("/openapi.json")).json();

function resolve(schema) {
  return schema?.$ref ? openapi.components.schemas[schema.$ref.split("/").pop()] : schema;
}

// The type of a field in words, such as "list of text".
function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${kind(schema.items)}`;
  return { string: "text", null: "null", object: "object" }[schema.type] ?? schema.type ?? "anything";
}

function fields(title, schema) {
  const model = resolve(schema);
  if (!model?.properties) return [];
  const rows = Object.entries(model.properties).map(([name, field]) => {
    const needed = model.required?.includes(name) ? ", needed" : "";
    const usual = field.default == null || "const" in field ? "" : `, usually ${JSON.stringify(field.default)}`;
    const cells = [element("code", name), kind(field) + needed + usual, field.description ?? ""];
    return element("tr", cells.map((cell) => element("td", cell)));
  });
  const nested = Object.values(model.properties)
    .map((field) => field.items ?? field)
    .filter((field) => field.$ref)
    .flatMap((field) => fields(field.$ref.split("/").pop(), field));
  const head = element("tr", ["Field", "Type", "Meaning"].map((text) => element("th", text, { scope: "col" })));
  return [element("h3", title), element("p", model.description ?? ""), element("table", [head, ...rows], { class: "fields" }), ...nested];
}

document.getElementById("about").textContent = openapi.info.description;
for (const [path, methods] of Object.entries(openapi.paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const request = operation.requestBody?.content["application/json"].schema;
    const answer = operation.responses[200]?.content?.["application/json"]?.schema;
    const parts = [
      element("h2", element("code", `${method.toUpperCase()} ${path}`)),
      element("p", operation.description),
      ...fields("Request", request),
      ...fields("Answer", answer),
    ];
    document.getElementById("operations").append(element("section", parts, { class: "operation" }));
  }
}
