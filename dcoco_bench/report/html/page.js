"use strict";
const value = (row, column) => {
  const cell = row.cells[column];
  return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
};
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
const sort = (head) => {
  const table = head.closest("table"), column = head.cellIndex, body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = [...body.rows];
  rows.sort((x, y) => (up ? 1 : -1) * compare(value(x, column), value(y, column)));
  body.append(...rows);
};
for (const head of document.querySelectorAll("th")) {
  head.addEventListener("click", () => sort(head));
  head.addEventListener("keydown", (event) => event.key === "Enter" && sort(head));
}
for (const input of document.querySelectorAll(".filter")) {
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of input.parentNode.querySelectorAll("tbody tr")) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
