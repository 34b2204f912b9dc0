// Runs a workflow of docs/n8n once, as n8n does: its code, its expressions, the pages of its requests. Prints what reached *Your work*.
import { existsSync, readFileSync, writeFileSync } from "node:fs";

const [file, address, key, memoryFile] = process.argv.slice(2);
const workflow = JSON.parse(readFileSync(file, "utf-8"));
const nodes = Object.fromEntries(workflow.nodes.map((node) => [node.name, node]));
const memory = existsSync(memoryFile) ? JSON.parse(readFileSync(memoryFile, "utf-8")) : {};
const reached = [];

const evaluate = (code, names) => new Function(...Object.keys(names), `return ${code}`)(...Object.values(names));
const filled = (text, names) => text.slice(1).replace(/{{(.*?)}}/g, (_, code) => evaluate(code, names));

async function pages(parameters, item) {
  const { nextURL, completeExpression } = parameters.options.pagination.pagination;
  // The smallest pages, so that whatever can happen between two of them does.
  let url = filled(parameters.url, { $json: item.json }).replace("http://127.0.0.1:8080", address).replace(/limit=\d+/, "limit=1");
  for (const found = []; ; ) {
    const answer = await fetch(url, { headers: { "x-api-key": key } });
    if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
    found.push({ json: await answer.json() });
    const names = { $response: { headers: Object.fromEntries(answer.headers) } };
    if (filled(completeExpression, names) === "true") return found;
    url = filled(nextURL, names);
  }
}

async function run(name, items) {
  const { type, parameters } = nodes[name];
  let out = items;
  if (type.endsWith(".code")) {
    out = new Function("$input", "$getWorkflowStaticData", parameters.jsCode)({ all: () => items }, () => memory);
  } else if (type.endsWith(".httpRequest")) {
    out = await pages(parameters, items[0]);
  }
  if (name === "Your work") reached.push(...items.map((item) => item.json));
  for (const next of out.length ? (workflow.connections[name]?.main[0] ?? []) : []) await run(next.node, out);
}

await run("Every 15 minutes", [{ json: {} }]);
writeFileSync(memoryFile, JSON.stringify(memory));
process.stdout.write(JSON.stringify(reached));
