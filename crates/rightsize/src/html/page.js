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
const table = document.getElementById("containers");
const body = table.tBodies[0];
const rows = Array.from(body.rows);
const headers = Array.from(table.tHead.rows[0].cells);
headers.forEach((header, column) => {
  const button = header.querySelector("button");
  if (!button) return;
  button.addEventListener("click", () => {
    const isNumber = header.classList.contains("number");
    // The first click shows names from A on and the largest numbers; the next one turns that round.
    const before = header.getAttribute("aria-sort");
    const rising = before ? before === "descending" : !isNumber;
    const value = (row) => row.cells[column].dataset.sort;
    const compare = isNumber
      ? (a, b) => Number(value(a)) - Number(value(b))
      : (a, b) => value(a).localeCompare(value(b));
    rows.sort((a, b) => (rising ? compare(a, b) : compare(b, a)));
    headers.forEach((other) => other.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
    body.append(...rows);
  });
});
const count = document.getElementById("count");
document.getElementById("filter").addEventListener("input", (event) => {
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    row.hidden = !words.every((word) => row.dataset.text.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  count.textContent = shown === rows.length ? "" : `${shown} of ${rows.length}`;
});
