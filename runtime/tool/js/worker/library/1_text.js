const { host, parse, stringify, apply, defineProperty, isArray, floor, random, Text, slice, charCode, lower, replace, split, join, push, splice, test, match, mapGet, mapSet, mapHas, mapDelete, fromCodes, expose, inCall, DOMException } = kit;

// UTF-8. A binary string has one byte in each character.
function toUTF8(text) {
  const bytes = [];
  for (let i = 0, n = 0; i < text.length; i++) {
    let c = text.charCodeAt(i);
    if (c >= 0xd800 && c < 0xe000) {
      const low = c < 0xdc00 && i + 1 < text.length ? text.charCodeAt(i + 1) : 0;
      if (low >= 0xdc00 && low < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        i++;
      } else {
        c = 0xfffd;
      }
    }
    if (c < 0x80) {
      bytes[n++] = c;
    } else if (c < 0x800) {
      bytes[n++] = 0xc0 | (c >> 6);
      bytes[n++] = 0x80 | (c & 63);
    } else if (c < 0x10000) {
      bytes[n++] = 0xe0 | (c >> 12);
      bytes[n++] = 0x80 | ((c >> 6) & 63);
      bytes[n++] = 0x80 | (c & 63);
    } else {
      bytes[n++] = 0xf0 | (c >> 18);
      bytes[n++] = 0x80 | ((c >> 12) & 63);
      bytes[n++] = 0x80 | ((c >> 6) & 63);
      bytes[n++] = 0x80 | (c & 63);
    }
  }
  return new Bytes(bytes);
}
const Bytes = Uint8Array;

function fromUTF8(bytes, fatal) {
  let text = "";
  const bad = () => {
    if (fatal) throw new TypeError("the bytes are not UTF-8");
    text += "\ufffd";
  };
  for (let i = 0; i < bytes.length; ) {
    const first = bytes[i++];
    if (first < 0x80) {
      text += fromCodes(first);
      continue;
    }
    let more = first >= 0xf0 && first < 0xf5 ? 3 : first >= 0xe0 && first < 0xf0 ? 2 : first >= 0xc2 && first < 0xe0 ? 1 : 0;
    if (!more) {
      bad();
      continue;
    }
    let code = first & (0x3f >> more);
    let lowest = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80; // no longer form than needed
    let highest = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf; // no surrogate, nothing past U+10FFFF
    for (; more && i < bytes.length && bytes[i] >= lowest && bytes[i] <= highest; more--) {
      code = (code << 6) | (bytes[i++] & 63);
      lowest = 0x80;
      highest = 0xbf;
    }
    if (more) bad();
    else if (code < 0x10000) text += fromCodes(code);
    else text += fromCodes(0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
  }
  return text;
}

// bytesOf returns a view of a buffer or view, or null for other values.
function bytesOf(value) {
  if (value instanceof ArrayBuffer) return new Bytes(value);
  if (ArrayBuffer.isView(value)) return new Bytes(value.buffer, value.byteOffset, value.byteLength);
  return null;
}

function toBinary(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i++) text += fromCodes(bytes[i]);
  return text;
}

function fromBinary(text) {
  const bytes = new Bytes(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

class TextEncoder {
  get encoding() {
    return "utf-8";
  }
  encode(text = "") {
    return toUTF8(Text(text));
  }
}

class TextDecoder {
  #fatal;
  #keepMark;
  constructor(label = "utf-8", options = {}) {
    if (!test(/^utf-?8$/i, label)) throw new RangeError("TextDecoder knows utf-8 alone");
    this.#fatal = !!options.fatal;
    this.#keepMark = !!options.ignoreBOM;
  }
  get encoding() {
    return "utf-8";
  }
  decode(value) {
    if (value === undefined) return "";
    const bytes = bytesOf(value);
    if (!bytes) throw new TypeError("decode needs an ArrayBuffer or a view of one");
    const text = fromUTF8(bytes, this.#fatal);
    return !this.#keepMark && text[0] === "\ufeff" ? slice(text, 1) : text;
  }
}

const digits64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function btoa(value) {
  const binary = Text(value);
  let text = "";
  for (let i = 0; i < binary.length; i += 3) {
    const a = binary.charCodeAt(i);
    const b = binary.charCodeAt(i + 1); // NaN past the end
    const c = binary.charCodeAt(i + 2);
    if (a > 255 || b > 255 || c > 255) throw new DOMException("btoa needs characters below U+0100", "InvalidCharacterError");
    const bits = (a << 16) | (b << 8) | c;
    text += digits64[bits >> 18] + digits64[(bits >> 12) & 63];
    text += i + 1 < binary.length ? digits64[(bits >> 6) & 63] : "=";
    text += i + 2 < binary.length ? digits64[bits & 63] : "=";
  }
  return text;
}

const valueOfDigit = {};
for (let i = 0; i < 64; i++) valueOfDigit[digits64[i]] = i;

function atob(value) {
  let text = replace(Text(value), /[\t\n\f\r ]/g, "");
  if (text.length % 4 === 0) text = replace(text, /={1,2}$/, "");
  if (text.length % 4 === 1 || test(/[^A-Za-z0-9+/]/, text)) throw new DOMException("atob needs base64", "InvalidCharacterError");
  let binary = "";
  for (let i = 0, bits = 0, n = 0; i < text.length; i++) {
    bits = ((bits << 6) | valueOfDigit[text[i]]) & 0xffffff;
    n += 6;
    if (n >= 8) {
      n -= 8;
      binary += fromCodes((bits >> n) & 255);
    }
  }
  return binary;
}

const hex = (n, width) => slice("0000" + n.toString(16), -width);
const crypto = {
  // Not for keys: the engine has no source of such numbers.
  randomUUID: () => {
    const part = () => hex(floor(random() * 0x10000), 4);
    return `${part()}${part()}-${part()}-4${slice(part(), 1)}-${hex(0x8000 | floor(random() * 0x4000), 4)}-${part()}${part()}${part()}`;
  },
};

expose({ TextEncoder, TextDecoder, atob, btoa });
