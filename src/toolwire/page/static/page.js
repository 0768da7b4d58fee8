// What the page does with a script: live rows, a paste that is translated while it is typed, marks that point at each
// other, and keys. Everything else works without it. Nothing here makes HTML from a text: it takes parts of our pages.

const parse = (text) => new DOMParser().parseFromString(text, "text/html");

// Marks: pointing at one side of a loss shows the other side.
const light = (event, on) => {
  const mark = event.target.closest?.("[data-loss]");
  if (!mark) return;
  for (const number of mark.dataset.loss.split(" ")) {
    for (const other of document.querySelectorAll(`[data-loss~="${CSS.escape(number)}"]`)) other.classList.toggle("lit", on);
  }
};
document.addEventListener("mouseover", (event) => light(event, true));
document.addEventListener("mouseout", (event) => light(event, false));

// A link to a place inside of a fold opens the fold.
const open = () => {
  const place = location.hash ? document.getElementById(location.hash.slice(1)) : null;
  for (let fold = place?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
};
addEventListener("hashchange", open);
open();

// Paste: the result follows the text, and only the newest answer is shown.
const form = document.querySelector("form[data-live]");
if (form) {
  let timer, asked = 0;
  const show = async () => {
    const number = ++asked;
    const result = document.getElementById("result");
    result.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) });
      const fresh = parse(await answer.text()).getElementById("result");
      if (number === asked && fresh) document.getElementById("result").replaceWith(fresh);
    } catch {
      if (number === asked) result.removeAttribute("aria-busy");
    }
  };
  form.addEventListener("input", (event) => {
    clearTimeout(timer);
    timer = setTimeout(show, event.target.tagName === "SELECT" ? 0 : 250);
    if (event.target.tagName === "SELECT") {
      const url = new URL(location.href);
      url.searchParams.set(event.target.name, event.target.value);
      history.replaceState(null, "", url);
    }
  });
}

// Copy as curl.
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(source.textContent);
  const words = button.textContent;
  button.textContent = "copied";
  setTimeout(() => (button.textContent = words), 1500);
});
for (const button of document.querySelectorAll("[data-copy], [data-pause]")) button.hidden = false;

// Live rows: they come at the top, in one piece of work for each message, and nothing else moves.
const rows = document.querySelector("[data-rows]");
if (rows) {
  const pause = document.querySelector("[data-pause]"), state = document.querySelector("[data-state]");
  const most = 500;
  let waiting = [], paused = false;
  const paint = () => {
    if (paused || !waiting.length) return;
    const part = document.createDocumentFragment();
    for (const html of waiting.slice(-most).reverse()) {
      for (const row of parse(`<table><tbody>${html}</tbody></table>`).querySelectorAll("tr")) {
        document.getElementById(row.id)?.remove();
        row.classList.add("new");
        part.append(row);
      }
    }
    waiting = [];
    rows.prepend(part);
    document.querySelector("[data-empty]")?.remove();
    while (rows.rows.length > most) rows.rows[rows.rows.length - 1].remove();
  };
  const tell = (words, on) => {
    if (!state) return;
    state.textContent = words;
    state.previousElementSibling?.classList.toggle("on", on);
  };
  const follow = () => {
    const source = new EventSource(rows.dataset.rows);
    source.onopen = () => tell(paused ? "paused" : "live", !paused);
    source.onerror = () => tell("not connected", false);
    source.addEventListener("rows", (event) => {
      const message = JSON.parse(event.data);
      waiting.push(...message.rows);
      if (waiting.length > most) waiting = waiting.slice(-most);
      for (const [name, words] of Object.entries(message.figures ?? {})) {
        const figure = document.querySelector(`[data-figure="${CSS.escape(name)}"]`);
        if (figure && !paused) figure.textContent = words;
      }
      requestAnimationFrame(paint);
    });
    addEventListener("pagehide", () => source.close());
  };
  follow();
  const toggle = () => {
    paused = !paused;
    pause.textContent = paused ? "Continue" : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
    tell(paused ? "paused" : "live", !paused);
    paint();
  };
  pause?.addEventListener("click", toggle);
}

// Keys: j and k move through a list, Enter opens a row, / goes to the filter.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  if (event.key === "/") {
    const filter = document.querySelector("[data-filter]");
    if (filter) {
      event.preventDefault();
      filter.focus();
    }
  } else if (event.key === "j" || event.key === "k") {
    const links = [...document.querySelectorAll("tbody tr a.row, tbody tr a.id")];
    const index = links.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    links[Math.max(0, Math.min(links.length - 1, index))]?.focus();
  }
});
