// Tables that sort by a click on a heading, show a part of many rows, and can be saved as CSV.

const PAGE = 50; // rows that are shown at once

// columns: { key, title, text: row => string, number: bool, bar: row => share }; rows: objects.
function sortableTable(caption, columns, rows, { file, choose, sort } = {}) {
  let order = rows, shown = PAGE, sorted = sort ?? null, filter = "";
  const body = element("tbody");
  const more = element("button", { type: "button", class: "small", onclick: () => { shown *= 4; draw(); } });
  const total = element("span", { class: "note", role: "status" });

  const heads = columns.map((column) => {
    const button = element("button", { type: "button", text: column.title, onclick: () => sortBy(column.key) });
    return element("th", { scope: "col", class: column.number ? "number" : "" }, button);
  });

  function sortBy(key) {
    const down = sorted?.key === key ? !sorted.down : columns.find((c) => c.key === key).number;
    sorted = { key, down };
    draw();
  }

  function draw() {
    const wanted = filter.toLowerCase();
    order = rows.filter((row) => !wanted || columns.some((c) => !c.number && String(row[c.key]).toLowerCase().includes(wanted)));
    if (sorted) {
      const sign = sorted.down ? -1 : 1, key = sorted.key;
      order = [...order].sort((a, b) => sign * (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0));
    }
    heads.forEach((head, k) => {
      const state = sorted?.key === columns[k].key ? (sorted.down ? "descending" : "ascending") : "none";
      head.setAttribute("aria-sort", state);
    });
    body.replaceChildren(...order.slice(0, shown).map(rowOf));
    more.hidden = order.length <= shown;
    more.textContent = `Show ${countText(Math.min(shown * 3, order.length - shown))} more`;
    total.textContent = `${countText(Math.min(shown, order.length))} of ${countText(order.length)}`;
  }

  function rowOf(row) {
    const cells = columns.map((column) => {
      const cell = element("td", { class: column.number ? "number" : "", text: column.text ? column.text(row) : breakable(String(row[column.key])) });
      if (column.bar) {
        const bar = element("i", { class: "bar", "aria-hidden": "true" });
        bar.style.setProperty("--share", Math.max(0, Math.min(1, column.bar(row))));
        cell.append(bar);
      }
      return cell;
    });
    const made = element("tr", {}, cells);
    if (choose) {
      made.classList.add("link");
      made.tabIndex = 0;
      made.addEventListener("click", () => choose(row));
      made.addEventListener("keydown", (event) => event.key === "Enter" && choose(row));
    }
    return made;
  }

  const csv = () => [columns.map((c) => csvCell(c.title)).join(","),
    ...order.map((row) => columns.map((c) => csvCell(row[c.key])).join(","))].join("\n") + "\n";
  const tools = rows.length <= 12 && !file ? null : element("div", { class: "tools" },
    rows.length > 12 ? element("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${caption}`,
      oninput: (event) => { filter = event.target.value; draw(); } }) : null,
    total,
    file ? element("button", { type: "button", class: "small", text: "CSV", "aria-label": `Save ${caption} as CSV`,
      onclick: () => download(file, csv()) }) : null);
  draw();
  return element("div", { class: "table" }, tools,
    element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      element("table", {}, element("caption", { class: "offscreen", text: caption }),
        element("thead", {}, element("tr", {}, heads)), body)), more);
}
