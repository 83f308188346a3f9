// The kinds of lines of Markdown.

const maxCells = 100; // of a row

/** indentOf returns the number of spaces before a text. */
export function indentOf(line) {
  let n = 0;
  while (line[n] === " ") n++;
  return n;
}

/** quoteOf returns where the text of a quote begins, or 0. */
export function quoteOf(line) {
  const at = indentOf(line);
  if (at > 3 || line[at] !== ">") return 0;
  return line[at + 1] === " " ? at + 2 : at + 1;
}

/** itemOf returns the mark of an item of a list, or null. */
export function itemOf(line) {
  const lead = indentOf(line);
  const found = lead > 3 ? null : /^(?:[-*+]|(\d{1,9})[.)])(?=\s|$)/.exec(line.slice(lead, lead + 12));
  if (!found) return null;
  const after = lead + found[0].length;
  const spaces = indentOf(line.slice(after, after + 5)); // more than four are those of the text
  const indent = after + (spaces > 4 ? 1 : Math.max(1, spaces));
  return { ordered: found[1] !== undefined, start: Number(found[1]), indent, least: Math.min(indent, lead + 2) };
}

/** isBreak reports whether a line has only three or more equal marks. */
export function isBreak(line) {
  const c = line[indentOf(line)];
  if (c !== "-" && c !== "*" && c !== "_") return false;
  let marks = 0;
  for (const other of line) {
    if (other === c) marks++;
    else if (other !== " ") return false;
  }
  return marks >= 3;
}

/** isRule reports whether a line is that below the head of a table. */
export const isRule = (line) => line.includes("-") && line.includes("|") && /^[ |:-]+$/.test(line);

export const fence = /^ {0,3}(`{3,}|~{3,}(?!~))([^`]*)$/;
export const heading = /^ {0,3}(#{1,6})(?:[ \t]|$)/;

/** startsBlock reports whether a line cannot continue a paragraph. */
export const startsBlock = (line) => isBreak(line) || heading.test(line) || fence.test(line);

/** cellsOf returns the cells of a row. */
export function cellsOf(line) {
  const row = line.trim();
  const cells = [];
  let from = row[0] === "|" ? 1 : 0;
  for (let i = from; i < row.length && cells.length < maxCells; i++) {
    if (row[i] === "\\") i++;
    else if (row[i] === "|") {
      cells.push(row.slice(from, i));
      from = i + 1;
    }
  }
  if (from < row.length && cells.length < maxCells) cells.push(row.slice(from));
  return cells.map((cell) => cell.trim().replaceAll("\\|", "|"));
}

/** runBefore returns how many equal characters are at the end of a text. */
export function runBefore(text, c) {
  let n = 0;
  while (n < text.length && text[text.length - 1 - n] === c) n++;
  return n;
}
