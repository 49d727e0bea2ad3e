// Elements of the page. Text is only ever set as text, never as markup.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "text") made.textContent = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

function section(id, title, note, ...children) {
  const head = element("h2", { id: `${id}-title`, text: title });
  return element("section", { id, "aria-labelledby": `${id}-title` },
    element("div", { class: "head" }, head, note ? element("p", { class: "note", text: note }) : null), children);
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { class: "offscreen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const before = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = before), 1200);
}

function copyButton(text) {
  return element("button", { type: "button", class: "small", text: "Copy", "aria-label": `Copy: ${text}`,
    onclick: (event) => copyText(text, event.currentTarget) });
}

function download(name, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A cell of CSV; a spreadsheet takes none of them for a formula.
function csvCell(value) {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// A group of buttons of which one is pressed.
function choice(label, options, value, change) {
  const buttons = options.map(([key, text]) => element("button", {
    type: "button", text, "aria-pressed": String(key === value), onclick: () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === buttons[options.findIndex(([k]) => k === key)]));
      change(key);
    },
  }));
  return element("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

// Colours of the style by name, read once a theme.
const colours = new Map();

function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}
