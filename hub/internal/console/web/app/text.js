// Texts, numbers and times in the language of the user. text/<language>.js have the same keys. A value of another type, or a
// text that is not a time, is returned as text.
import { textOf } from "../lib/preact.js";

/** @type {Record<string, string|Record<string, string>>} */
let texts = {};
let lang = "en";
let plural = new Intl.PluralRules("en");
export const languages = { en: "English", zh: "简体中文" };

export const language = () => lang;

/** loadLanguage loads the stored language, or that of the browser. */
export async function loadLanguage() {
  const stored = localStorage.getItem("language");
  lang = stored && stored in languages ? stored : navigator.language.startsWith("zh") ? "zh" : "en";
  texts = (lang === "zh" ? await import("../text/zh.js") : await import("../text/en.js")).default;
  plural = new Intl.PluralRules(lang);
  document.documentElement.lang = lang === "zh" ? "zh-CN" : "en";
}

/** t returns a text. {name} in it is replaced by a value; a text with plural forms depends on {n}. @param {string} key @param {Record<string, any>} values */
export function t(key, values = {}) {
  let text = texts[key];
  if (text === undefined) return key;
  if (typeof text !== "string") text = text[plural.select(Number(values.n))] || text.other;
  return text.replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    return typeof value === "number" ? number(value) : textOf(value);
  });
}

/** has reports whether a text exists. */
export const has = (key) => key in texts;

export const number = (n, options = {}) => (typeof n === "number" ? new Intl.NumberFormat(lang, options).format(n) : textOf(n));
export const compact = (n) => number(n, { notation: "compact", maximumFractionDigits: 1 });
export const money = (n) => number(n, { style: "currency", currency: "USD", maximumFractionDigits: n && n < 1 ? 4 : 2 });

/** millisOf returns a time in milliseconds since 1970, or NaN. Times of the hub have years of four digits. */
const millisOf = (text) => (typeof text === "string" ? Date.parse(text) : NaN);

/** @param {any} text @param {Intl.DateTimeFormatOptions} options */
export function date(text, options = { dateStyle: "medium", timeZone: "UTC" }) {
  const at = millisOf(text);
  return Number.isNaN(at) ? textOf(text) : new Intl.DateTimeFormat(lang, options).format(at);
}
/** dateTime returns an exact time with its zone, and clock that of a day, of what follows each other within a second. */
export const dateTime = (text) => date(text, { dateStyle: "medium", timeStyle: "long" });
export const clock = (text) => date(text, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

/** localOf and instantOf convert between RFC 3339 and the value of a field for a local time. */
export function localOf(text) {
  const at = millisOf(text);
  return Number.isNaN(at) ? "" : new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
export function instantOf(text) {
  const at = millisOf(text);
  return Number.isNaN(at) ? "" : new Date(at).toISOString();
}

export function bytes(n) {
  if (typeof n !== "number") return textOf(n);
  for (const unit of ["byte", "kilobyte", "megabyte"]) {
    if (n < 1000 || unit === "megabyte") return number(n, { style: "unit", unit, unitDisplay: unit === "byte" ? "long" : "short", maximumFractionDigits: 1 });
    n /= 1000;
  }
  return "";
}

export function duration(ms) {
  if (typeof ms !== "number") return textOf(ms);
  const unit = ms < 1000 ? "millisecond" : ms < 60_000 ? "second" : "minute";
  const value = { millisecond: ms, second: ms / 1000, minute: ms / 60_000 }[unit];
  return number(value, { style: "unit", unit, unitDisplay: "narrow", maximumFractionDigits: unit === "millisecond" ? 0 : 1 });
}

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const steps = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];
export function relative(text) {
  let value = (millisOf(text) - Date.now()) / 1000;
  if (Number.isNaN(value)) return textOf(text);
  for (const [unit, size] of steps) {
    if (Math.abs(value) < size) return new Intl.RelativeTimeFormat(lang, { numeric: "auto" }).format(Math.round(value), unit);
    value /= size;
  }
  return "";
}

/** titleOf returns the title of an agent or a component in the language of the user. */
export const titleOf = (item) => (lang === "en" && item.titleEn) || item.title || item.displayName || item.name || "";
export const descriptionOf = (item) => (lang === "en" && item.descriptionEn) || item.description || "";

/** jsonOf returns a value as JSON on several lines, or on one if the spaces before its lines were most of the text: those of a deep value are the square of its size. */
export function jsonOf(value) {
  const text = JSON.stringify(value);
  let spaces = 4000 + 2 * text.length;
  let depth = 0;
  for (let i = 0; i < text.length && spaces > 0; i++) {
    const c = text[i];
    if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") depth--;
    else if (c !== ",") continue;
    spaces -= 2 * Math.abs(depth);
  }
  return spaces > 0 ? JSON.stringify(value, null, 2) : text;
}

// Control characters but tabs and line ends, and those that change the direction of what follows: a command could look like another.
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;

/** visible returns a text with U+FFFD in place of control characters, for what must be read exactly. */
export const visible = (text) => text.replace(controls, "\ufffd");
