// The files of a ZIP archive (APPNOTE.TXT of PKWARE), as the hub stores skills.

/** @typedef {{name: string, size: number, text: () => Promise<string>}} File */

/** filesOf returns the files of an archive, and none of one without a directory. @param {ArrayBuffer} archive @returns {File[]} */
export function filesOf(archive) {
  const view = new DataView(archive);
  let end = archive.byteLength - 22; // of the record at the end, before a comment
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) return [];
  const files = [];
  const count = view.getUint16(end + 10, true);
  let at = view.getUint32(end + 16, true);
  for (let i = 0; i < count && view.getUint32(at, true) === 0x02014b50; i++) {
    const [method, packed, size, length] = [view.getUint16(at + 10, true), view.getUint32(at + 20, true), view.getUint32(at + 24, true), view.getUint16(at + 28, true)];
    const local = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(new Uint8Array(archive, at + 46, length));
    const text = () => {
      const from = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
      const content = new Blob([new Uint8Array(archive, from, packed)]);
      return method ? new Response(content.stream().pipeThrough(new DecompressionStream("deflate-raw"))).text() : content.text();
    };
    if (!name.endsWith("/")) files.push({ name, size, text });
    at += 46 + length + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return files;
}
