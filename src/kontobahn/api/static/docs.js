// The documentation page: filtering, copying and trying calls. Without it everything can still be read.
"use strict";

const KEY_NAME = "kontobahn.key";
const SHOWN_HEADERS = [
  "x-request-id", "x-credits-charged", "x-data-as-of", "idempotent-replayed", "retry-after", "allow",
  "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset",
];

const all = (selector, within = document) => [...within.querySelectorAll(selector)];

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// --- Reading

function nameThisServer() {
  for (const span of all(".origin")) span.textContent = location.origin;
}

function offerCopies() {
  for (const caption of all(".samples figcaption")) {
    const button = element("button", "copy", "Copy");
    button.type = "button";
    button.setAttribute("aria-label", `Copy: ${caption.firstChild.textContent.trim()}`);
    button.addEventListener("click", async () => {
      const figure = caption.parentElement;
      const shown = figure.querySelector("details[open] pre") ?? figure.querySelector("pre");
      button.textContent = (await copied(shown)) ? "Copied" : "Press Ctrl+C";
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    });
    caption.append(button);
  }
}

async function copied(pre) {
  try {
    await navigator.clipboard.writeText(pre.textContent);
    return true;
  } catch {
    // Without a secure context there is no clipboard: select it for the reader.
    getSelection().selectAllChildren(pre);
    return false;
  }
}

// One language for all samples: whoever opens a sample in Python wants the next one in Python, too.
function followLanguage() {
  for (const summary of all(".sample > summary")) {
    summary.addEventListener("click", (event) => {
      event.preventDefault();
      const wanted = summary.parentElement.dataset.language;
      const top = summary.getBoundingClientRect().top;
      for (const figure of all(".request")) {
        const offered = all(".sample", figure);
        if (!offered.some((sample) => sample.dataset.language === wanted)) continue;
        for (const sample of offered) sample.open = sample.dataset.language === wanted;
      }
      // What was opened above must not move what is being read.
      scrollBy({ top: summary.getBoundingClientRect().top - top, behavior: "instant" });
    });
  }
}

// What a call or a section says: names, parameters, fields and texts; "in quotes" as they stand.
function offerFilter() {
  const input = document.getElementById("filter");
  const plain = (text) => text.toLowerCase().replace(/\s+/g, " ");
  const said = (part) => plain(all(".words", part).map((text) => text.textContent).join(" ") + part.id);
  const calls = new Map(all("article[data-operation]").map((article) => [article.id, said(article)]));
  const sections = new Map(all("section[data-section]").map((section) => [section.id, plain(section.textContent)]));
  input.parentElement.hidden = false;

  function openWhereFound(wanted) {
    for (const details of all(".operation .more")) {
      const names = all("th code", details).map((name) => plain(name.textContent));
      details.open = wanted.some((word) => names.some((name) => name.includes(word)));
    }
  }

  function apply() {
    const wanted = [...plain(input.value).matchAll(/"([^"]+)"?|([^\s"]+)/g)].map((found) => found[1] ?? found[2]);
    const fits = (text) => wanted.every((word) => text.includes(word));
    for (const item of all("[data-operation]")) item.hidden = !fits(calls.get(item.dataset.operation));
    for (const item of all("[data-section]")) item.hidden = !fits(sections.get(item.dataset.section));
    for (const part of all("[data-area], [data-guide]")) {
      part.hidden = !all("[data-operation], [data-section]", part).some((item) => !item.hidden);
    }
    const count = [...calls.values()].filter(fits).length;
    const read = [...sections.values()].filter(fits).length;
    document.getElementById("nothing").hidden = count + read > 0;
    const guide = read ? `, ${read} of the guide` : "";
    document.getElementById("filter-result").textContent = wanted.length ? `${count} of ${calls.size} calls${guide}` : "";
    for (const link of all(".ask")) link.search = wanted.length ? new URLSearchParams({ q: input.value.trim() }) : "";
    openWhereFound(wanted);
  }

  input.addEventListener("input", apply);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      input.value = "";
      apply();
    }
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      document.getElementById("menu").checked = true;
      input.focus();
    }
  });
}

function followReading() {
  const links = new Map(all(".contents li a").map((link) => [link.hash.slice(1), link]));
  let current = null;
  const watcher = new IntersectionObserver((entries) => {
    const entered = entries.find((entry) => entry.isIntersecting);
    const link = entered && links.get(entered.target.id);
    if (!link || link === current) return;
    if (current) current.removeAttribute("aria-current");
    link.setAttribute("aria-current", "location");
    current = link;
    const frame = link.closest(".top");
    const box = link.getBoundingClientRect();
    if (box.top < 80 || box.bottom > innerHeight - 40) frame.scrollBy({ top: box.top - innerHeight / 2 });
  }, { rootMargin: "-10% 0px -75% 0px" });
  for (const id of links.keys()) watcher.observe(document.getElementById(id));
  for (const link of links.values()) {
    link.addEventListener("click", () => { document.getElementById("menu").checked = false; });
  }
}

// --- Trying

function keepKey() {
  const inputs = all("input.key");
  const show = (value) => { for (const input of inputs) input.value = value; };
  show(sessionStorage.getItem(KEY_NAME) ?? "");
  for (const input of inputs) {
    input.addEventListener("change", () => {
      const key = input.value.trim();
      if (key) sessionStorage.setItem(KEY_NAME, key);
      else sessionStorage.removeItem(KEY_NAME);
      show(key);
    });
  }
  for (const button of all(".forget")) {
    button.addEventListener("click", () => {
      sessionStorage.removeItem(KEY_NAME);
      show("");
    });
  }
}

function offerTries() {
  for (const details of all(".try")) {
    details.hidden = false;
    const form = details.querySelector("form");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      send(form, details.querySelector(".result"));
    });
  }
}

function requestOf(form) {
  let path = form.dataset.path;
  const query = new URLSearchParams();
  const headers = new Headers({ accept: "application/json" });
  for (const input of all("[data-place]", form)) {
    const value = input.value.trim();
    if (input.dataset.place === "path") path = path.replace(`{${input.name}}`, encodeURIComponent(value));
    else if (value && input.dataset.place === "query") query.append(input.name, value);
    else if (value) headers.set(input.name, value);
  }
  const key = form.querySelector("input.key")?.value.trim();
  if (key?.startsWith(document.body.dataset.sessionPrefix)) headers.set("authorization", `Bearer ${key}`);
  else if (key) headers.set("x-api-key", key);
  const body = form.querySelector("textarea.body")?.value;
  if (body !== undefined) headers.set("content-type", "application/json");
  const search = query.size ? `?${query}` : "";
  return [path + search, { method: form.dataset.method, headers, body, cache: "no-store", credentials: "omit", redirect: "error" }];
}

async function send(form, result) {
  const button = form.querySelector(".send");
  button.disabled = true;
  result.replaceChildren(element("p", "note", "Sending…"));
  const started = performance.now();
  try {
    const [address, options] = requestOf(form);
    const response = await fetch(address, options);
    const text = await response.text();
    show(result, response, text, performance.now() - started);
  } catch (error) {
    const outcome = element("p", "outcome bad");
    outcome.append(element("b", "", "No answer"), element("span", "", String(error.message ?? error)));
    result.replaceChildren(outcome);
  } finally {
    button.disabled = false;
  }
}

function show(result, response, text, milliseconds) {
  const outcome = element("p", `outcome ${response.ok ? "good" : "bad"}`);
  outcome.append(
    element("b", "", `${response.status} ${response.statusText}`.trim()),
    element("span", "", `${milliseconds < 10 ? milliseconds.toFixed(1) : Math.round(milliseconds)} ms`),
    element("span", "", size(new Blob([text]).size)),
  );
  const headers = element("dl");
  for (const name of SHOWN_HEADERS) {
    if (response.headers.has(name)) headers.append(element("dt", "", name), element("dd", "", response.headers.get(name)));
  }
  const pre = element("pre");
  pre.tabIndex = 0;
  pre.append(...marked(text));
  result.replaceChildren(outcome, headers, pre);
}

function size(bytes) {
  return bytes < 1024 ? `${bytes} bytes` : `${(bytes / 1024).toFixed(1)} KiB`;
}

// Indents JSON by its tokens. Parsing it would turn 10.50 into 10.5 and round what a float cannot hold.
function marked(text) {
  try {
    JSON.parse(text);
  } catch {
    return [text];
  }
  const parts = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g);
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (token === "{" || token === "[") {
      const isEmpty = next === "}" || next === "]";
      if (!isEmpty) depth += 1;
      parts.push(token + (isEmpty ? "" : line()));
    } else if (token === "}" || token === "]") {
      const isEmpty = tokens[at - 1] === "{" || tokens[at - 1] === "[";
      if (!isEmpty) depth -= 1;
      parts.push((isEmpty ? "" : line()) + token);
    } else if (token === ",") parts.push(token + line());
    else if (token === ":") parts.push(": ");
    else parts.push(element("span", token[0] !== '"' ? "j-value" : next === ":" ? "j-key" : "j-text", token));
  });
  return parts;
}

if (document.querySelector(".origin")) nameThisServer();
offerCopies();
offerFilter();
followLanguage();
followReading();
keepKey();
offerTries();
