"use strict";
const root = document.documentElement;
document.getElementById("look").addEventListener("click", () => {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
});
document.getElementById("save").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([document.getElementById("csv").textContent.trimStart()], { type: "text/csv" }));
  link.download = "headroom.csv";
  link.click();
});
// Rows as data: a large cluster has ten thousands, and a browser needs seconds for so many elements.
{
  const table = document.getElementById("containers");
  const body = table.tBodies[0];
  const first = Array.from(body.rows, (element) => ({ element, html: element.outerHTML }));
  const lines = document.getElementById("rows").textContent.split("\n").filter(Boolean);
  const holder = document.createElement("template");
  const decoded = (html) => {
    if (!html.includes("&")) return html;
    holder.innerHTML = html;
    return holder.content.textContent;
  };
  const rows = [...first, ...lines.map((html) => ({ html }))];
  const element = (row) => {
    if (!row.element) {
      holder.innerHTML = row.html;
      row.element = holder.content.firstElementChild;
    }
    return row.element;
  };
  const text = (row) => (row.text ??= decoded(row.html.match(/ data-text="([^"]*)"/)[1]));
  const sorts = (row) => (row.sorts ??= Array.from(row.html.matchAll(/ data-sort="([^"]*)"/g), (found) => found[1]));
  const PAGE = 200;
  let shown = rows;
  let made = first.length;
  const makeTo = (end) => {
    if (end <= made) return;
    body.append(...shown.slice(made, end).map(element));
    made = Math.min(end, shown.length);
  };
  const show = (list) => {
    shown = list;
    made = Math.min(PAGE, list.length);
    body.replaceChildren(...list.slice(0, made).map(element));
  };
  const end = document.createElement("div");
  table.after(end);
  new IntersectionObserver(([entry]) => entry.isIntersecting && makeTo(made + PAGE), { rootMargin: "1000px" }).observe(end);
  addEventListener("beforeprint", () => makeTo(shown.length));
  const makeTarget = (hash) => {
    const at = hash.length > 1 ? shown.findIndex((row) => row.html.startsWith(`<tr id="${decodeURIComponent(hash.slice(1))}"`)) : -1;
    if (at >= made) makeTo(at + PAGE);
    return shown[at];
  };
  document.addEventListener("click", ({ target }) => {
    const link = target.closest("a[href^='#']");
    if (link) makeTarget(link.hash);
  });
  const target = makeTarget(location.hash);
  if (target) element(target).scrollIntoView();
  const buttons = Array.from(table.querySelectorAll("thead button"));
  buttons.forEach((button, column) => {
    button.addEventListener("click", () => {
      const header = button.closest("th");
      const isNumber = header.classList.contains("number");
      // The first click shows names from A on and the largest numbers; the next one turns that round.
      const before = header.getAttribute("aria-sort");
      const rising = before ? before === "descending" : !isNumber;
      const value = (row) => sorts(row)[column];
      const compare = isNumber
        ? (a, b) => Number(value(a)) - Number(value(b))
        : (a, b) => value(a).localeCompare(value(b));
      rows.sort((a, b) => (rising ? compare(a, b) : compare(b, a)));
      buttons.forEach((other) => other.closest("th").removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", rising ? "ascending" : "descending");
      filter();
    });
  });
  const count = document.getElementById("count");
  const input = document.getElementById("filter");
  const filter = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    show(words.length ? rows.filter((row) => words.every((word) => text(row).includes(word))) : rows);
    count.textContent = shown.length === rows.length ? "" : `${shown.length} of ${rows.length}`;
  };
  input.addEventListener("input", filter);
}
