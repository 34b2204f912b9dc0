// Comfort only: every page works without this file.
"use strict";
(() => {
  const body = document.body;
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  // Live parts as they came, before scripts and hands change them.
  const came = {};
  for (const part of $$("[data-live]")) came[part.id] = part.innerHTML;

  // --- Copying

  for (const button of $$("[data-copy]")) {
    button.hidden = false;
    const words = button.lastChild;
    button.addEventListener("click", async () => {
      const field = document.getElementById(button.dataset.copy);
      field.select();
      try {
        await navigator.clipboard.writeText(field.value);
        const before = words.textContent;
        words.textContent = body.dataset.copied;
        setTimeout(() => { words.textContent = before; }, 1500);
      } catch { /* it is selected; the person copies it */ }
    });
  }
  for (const field of $$("[data-select]")) field.addEventListener("focus", () => field.select());

  for (const button of $$("[data-print]")) {
    button.hidden = false;
    button.addEventListener("click", () => print());
  }

  // A choice that is a form of its own needs no button.
  for (const field of $$("[data-submit]")) {
    const button = $("button", field.form);
    button.hidden = true;
    field.addEventListener("change", () => field.form.requestSubmit(button));
  }

  // --- Forms: sent once, and with a bar while a file goes out

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || event.defaultPrevented) return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "1";
    if ("upload" in form.dataset) {
      const files = "several" in form.dataset ? [...$('[type="file"]', form).files] : [];
      if (files.length > 1) sendFiles(event, form, files);
      else sendFile(event, form);
    }
  });
  // Whoever comes back with the back button may send again.
  addEventListener("pageshow", () => { for (const form of document.forms) delete form.dataset.sent; });

  // The answer may be another page than the one with the form: its menu says so.
  function showAnswer(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    for (const part of ["header.top", "main"]) $(part).replaceWith(document.adoptNode($(part, page)));
    $("main").focus();
  }

  function sendFile(event, form) {
    event.preventDefault();
    const bar = $("progress.sending", form);
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    // Not a person looking: the message for the next page waits for the next page.
    request.setRequestHeader("X-Poll", "1");
    request.upload.addEventListener("progress", (sent) => {
      bar.hidden = false;
      if (sent.lengthComputable) bar.value = Math.round((sent.loaded / sent.total) * 100);
    });
    // What went wrong is shown by the page itself, in the way it would be without this script.
    const again = () => { delete form.dataset.upload; delete form.dataset.sent; form.submit(); };
    request.addEventListener("error", again);
    request.addEventListener("load", () => {
      if (request.responseURL && request.responseURL !== form.action) { location.assign(request.responseURL); return; }
      showAnswer(request.responseText);
    });
    request.send(new FormData(form));
  }

  // Several files at once, chosen or dropped: each is sent by itself, and the page shows what came of all of them.
  async function sendFiles(event, form, files) {
    event.preventDefault();
    const bar = $("progress.sending", form);
    bar.hidden = false;
    let refused = "";
    for (const [place, file] of files.entries()) {
      bar.value = Math.round((place / files.length) * 100);
      const body = new FormData();
      body.append("file", file);
      const answer = await fetch(form.action, { method: "POST", body, headers: { "X-Poll": "1" } }).catch(() => null);
      if (answer && !answer.redirected) refused = await answer.text();
    }
    if (!refused) { location.assign(form.action); return; }
    showAnswer(refused);
  }
  for (const form of $$("[data-several]")) {
    const field = $('[type="file"]', form);
    field.multiple = true;
    form.addEventListener("dragover", (event) => { event.preventDefault(); });
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      if (!event.dataTransfer.files.length) return;
      field.files = event.dataTransfer.files;
      form.requestSubmit();
    });
  }

  // Where a browser shows no PDF, as on many phones, a frame around one stays empty; beside it is a link to the file.
  if (navigator.pdfViewerEnabled === false) $$(".document").forEach((frame) => { frame.hidden = true; });

  // --- Passkeys: the browser answers our challenge, and the form takes the answer along

  function passkeyForm(form, answer) {
    const sent = $("[data-answer]", form);
    form.addEventListener("submit", async (event) => {
      if (sent.value) return;
      event.preventDefault();
      event.stopPropagation();
      try {
        sent.value = JSON.stringify((await answer()).toJSON());
        form.requestSubmit();
      } catch {
        const said = $("[role=alert]", form);
        said.textContent = form.dataset.refused;
        said.hidden = false;
      }
    }, true);
  }
  if (window.PublicKeyCredential && PublicKeyCredential.parseCreationOptionsFromJSON) {
    for (const form of $$("[data-passkey-make]")) {
      const options = JSON.parse(form.dataset.passkeyMake);
      passkeyForm(form, () => navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options) }));
    }
    for (const form of $$("[data-passkey-use]")) {
      form.hidden = false;
      passkeyForm(form, async () => {
        const asked = await (await fetch(form.dataset.passkeyUse, { method: "POST" })).json();
        $("[data-ticket]", form).value = asked.ticket;
        return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(asked.options) });
      });
    }
  }

  // --- A hint while typing: data-check names the address that answers for a value

  for (const field of $$("[data-check]")) {
    const hint = document.getElementById(field.dataset.checkHint);
    let last = "";
    field.addEventListener("input", async () => {
      const value = field.value.trim();
      last = value;
      if (value.length < 8) { hint.textContent = ""; return; }
      await new Promise((done) => { setTimeout(done, 250); });
      if (last !== value) return;
      const answer = await fetch(`${field.dataset.check}?value=${encodeURIComponent(value)}`).catch(() => null);
      if (answer && answer.ok && !answer.redirected && last === value) hint.textContent = await answer.text();
    });
  }

  // --- Looking whether the page has changed

  const news = $("#news");
  const seconds = Number(body.dataset.poll || 0);
  let tag = "";

  async function look() {
    if (document.hidden) return;
    const headers = { "X-Poll": "1" };
    if (tag) headers["If-None-Match"] = tag;
    const answer = await fetch(location.href, { headers }).catch(() => null);
    if (!answer || answer.status === 304) return;
    if (answer.redirected) { location.reload(); return; }
    if (!answer.ok) return;
    tag = answer.headers.get("ETag") || "";
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
  }

  function show(fresh) {
    // Not under the hands of somebody who is typing.
    const busy = document.activeElement && document.activeElement.closest("[data-live], [data-rows]");
    let changes = 0;
    for (const part of $$("[data-live]")) {
      const now = fresh.getElementById(part.id);
      if (now && now.innerHTML !== came[part.id] && !(busy && part.contains(busy))) {
        came[part.id] = now.innerHTML;
        part.replaceWith(document.adoptNode(now));
        changes += 1;
      }
    }
    // Rows that are here change in their place; new ones are only counted, so that nothing jumps.
    let added = 0;
    for (const row of $$("[data-rows] tbody tr[id]", fresh)) {
      const here = document.getElementById(row.id);
      if (!here) { if (!row.closest("[data-live]")) added += 1; continue; }
      if (here.innerHTML !== row.innerHTML && !here.contains(document.activeElement)) here.innerHTML = row.innerHTML;
    }
    if (!news || !(added || changes)) return;
    const count = added || changes;
    news.textContent = (count === 1 ? body.dataset.pollOne : body.dataset.pollMany).replace("{n}", String(count));
    if (added) {
      const link = document.createElement("a");
      link.href = location.href;
      link.textContent = body.dataset.pollShow;
      news.append(" ", link);
    } else {
      setTimeout(() => { news.textContent = ""; }, 4000);
    }
  }

  if (seconds) { look(); setInterval(look, seconds * 1000); }

  // --- Keys

  if (!("shortcuts" in body.dataset)) return;
  let waiting = 0;

  const rows = () => $$("[data-rows] tbody tr");
  function move(step) {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.getAttribute("aria-selected") === "true");
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    for (const row of all) row.removeAttribute("aria-selected");
    next.setAttribute("aria-selected", "true");
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input, select, textarea, [contenteditable]")) return;
    if (Date.now() < waiting) {
      waiting = 0;
      const link = $(`[data-key="${CSS.escape(event.key)}"]`);
      if (link) { event.preventDefault(); location.assign(link.href); }
      return;
    }
    if (event.key === "g") { waiting = Date.now() + 1500; return; }
    // What a page does with one key: a link or a button that names it. Enter on another button or link is that one's own.
    const own = event.key === "Enter" ? "[data-enter]" : `[data-press="${CSS.escape(event.key)}"]`;
    const press = (event.key !== "Enter" || !event.target.closest("a, button, summary")) && $(own);
    if (press) { event.preventDefault(); press.click(); return; }
    if (event.key === "j" || event.key === "k") { event.preventDefault(); move(event.key === "j" ? 1 : -1); return; }
    if (event.key === "Enter") {
      const link = $('[data-rows] tbody tr[aria-selected="true"] a[href]');
      if (link && event.target.closest("tr")) link.click();
    } else if (event.key === "/") {
      const field = $("[data-search]");
      event.preventDefault();
      $(".menu").open = true;
      field.focus();
    } else if (event.key === "f") {
      const box = $(".filters");
      if (!box) return;
      event.preventDefault();
      box.open = true;
      const field = $('[type="search"]', box) || $("input, select", box);
      if (field) field.focus();
    } else if (event.key === "?") {
      const help = $("[data-help]");
      if (help) location.assign(help.href);
    }
  });
})();
