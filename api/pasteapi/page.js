"use strict";
// Everything here is extra: the pages work without it.
(() => {
  const all = (selector, in_ = document) => Array.from(in_.querySelectorAll(selector));
  const byID = (id) => document.getElementById(id);

  // Lines: #L3 and #L3-L9. A click on a number selects its line, with shift up to the last one clicked.
  const code = byID("code");
  const lines = code ? code.firstElementChild.children : [];
  let anchor = 0;
  const numberOf = (link) => Number(link.getAttribute("href").slice(2));
  const range = () => {
    const m = /^#L(\d+)(?:-L?(\d+))?$/.exec(location.hash);
    if (!m) return null;
    const a = Number(m[1]), b = Number(m[2] || m[1]);
    return [Math.max(1, Math.min(a, b)), Math.min(lines.length, Math.max(a, b))];
  };
  const mark = (scroll) => {
    for (const line of all(".on", code)) line.classList.remove("on");
    const r = range();
    code.classList.toggle("ranged", r !== null);
    if (!r) return;
    for (let i = r[0]; i <= r[1]; i++) lines[i - 1].classList.add("on");
    if (scroll && lines[r[0] - 1]) lines[r[0] - 1].scrollIntoView({ block: "start", inline: "nearest" });
  };
  if (code) {
    code.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#L']");
      if (!link || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const n = numberOf(link);
      const from = event.shiftKey && anchor ? anchor : n;
      anchor = from;
      const a = Math.min(from, n), b = Math.max(from, n);
      history.replaceState(history.state, "", a === b ? "#L" + a : "#L" + a + "-L" + b);
      mark(false);
    });
    addEventListener("hashchange", () => mark(true));
    const r = range();
    if (r) anchor = r[0];
    mark(r !== null && r[0] !== r[1]);
  }

  // Copy buttons.
  const textOf = (el) => el === code ? Array.from(lines, (line) => line.textContent).join("") : el.textContent;
  const copied = async (text) => {
    if (navigator.clipboard) {
      try { await navigator.clipboard.writeText(text); return true; } catch { /* not permitted: the old way */ }
    }
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "hidden";
    document.body.append(area);
    area.select();
    const ok = document.execCommand("copy");
    area.remove();
    return ok;
  };
  for (const button of all("[data-copy]")) {
    button.hidden = false;
    const label = button.textContent;
    button.addEventListener("click", async () => {
      button.textContent = await copied(textOf(byID(button.dataset.copy))) ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = label; }, 2000);
    });
  }

  if (byID("url")) try { sessionStorage.removeItem("text"); } catch { /* storage is off */ }

  // The time that is left, in the words of the server.
  const units = [[1, 120, "second"], [60, 120 * 60, "minute"], [3600, 48 * 3600, "hour"], [86400, 730 * 86400, "day"], [365 * 86400, Infinity, "year"]];
  const words = (seconds) => {
    const [unit, , noun] = units.find((u) => seconds < u[1]);
    const n = Math.floor(seconds / unit);
    return n.toLocaleString("en") + " " + noun + (n === 1 ? "" : "s");
  };
  const clock = document.querySelector("time.expires");
  const count = () => {
    const left = (Date.parse(clock.dateTime) - Date.now()) / 1000;
    clock.textContent = left > 0 ? "Expires in " + words(left) : "Expired";
    if (left > 0) setTimeout(count, left < 7200 ? 1000 : 60000);
    else if (code) code.remove();
  };
  if (clock) count();

  // The choice of a language takes effect at once.
  for (const select of all("select[data-submit]")) {
    select.form.querySelector("button").hidden = true;
    select.addEventListener("change", () => select.form.submit());
  }

  // The form: a file that is dropped becomes the chosen file; one that is too large is named before it is sent.
  const file = byID("file");
  if (file && file.form) {
    const form = file.form, text = byID("text"), error = byID("file-error"), clear = document.querySelector("[data-clear]"), send = form.querySelector(".send"), drop = document.querySelector("[data-drop]");
    const most = Number(file.dataset.most);
    const size = (n) => n < 1048576 ? Math.ceil(n / 1024) + " KiB" : (n / 1048576).toFixed(1) + " MiB";
    const check = () => {
      const chosen = file.files[0];
      const large = chosen && chosen.size > most;
      clear.hidden = !chosen;
      text.disabled = Boolean(chosen);
      text.placeholder = chosen ? "The file " + chosen.name + " is sent" : "Paste or write something";
      error.hidden = !large;
      error.textContent = large ? chosen.name + " has " + size(chosen.size) + "; at most " + size(most) + " are allowed" : "";
      file.closest(".field").classList.toggle("bad", Boolean(large));
      return !large;
    };
    file.addEventListener("change", check);
    clear.addEventListener("click", () => { file.value = ""; check(); text.focus(); });
    const carriesFile = (event) => Array.from(event.dataTransfer ? event.dataTransfer.types : []).includes("Files");
    let depth = 0;
    const over = (change) => { depth = change === 0 ? 0 : Math.max(0, depth + change); drop.classList.toggle("over", depth > 0); };
    document.addEventListener("dragenter", (event) => { if (carriesFile(event)) over(1); });
    document.addEventListener("dragleave", (event) => { if (carriesFile(event)) over(-1); });
    document.addEventListener("dragover", (event) => { if (carriesFile(event)) event.preventDefault(); });
    document.addEventListener("drop", (event) => {
      over(0);
      if (!carriesFile(event)) return;
      event.preventDefault();
      const one = new DataTransfer();
      for (const dropped of Array.from(event.dataTransfer.files).slice(0, 1)) one.items.add(dropped);
      file.files = one.files;
      const title = byID("title");
      if (check() && title && !title.value && file.files[0]) title.value = file.files[0].name;
    });
    // The answer to a form with an error does not repeat a long text: this tab keeps it until the paste is created.
    const kept = (work) => { try { return work(sessionStorage); } catch { return null; } };
    if (document.querySelector(".bad, .note[role=alert]")) {
      if (!text.value) text.value = kept((store) => store.getItem("text")) || "";
    } else kept((store) => store.removeItem("text"));
    form.addEventListener("submit", (event) => {
      if (!check()) { event.preventDefault(); file.focus(); return; }
      kept((store) => store.setItem("text", text.value));
      send.disabled = true;
      send.textContent = "Creating…";
    });
    text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(); });
    addEventListener("pageshow", () => { send.disabled = false; send.textContent = "Create paste"; check(); });
  }
})();
