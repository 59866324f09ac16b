// Several files as one download: a ZIP archive whose files are stored as they are.

const encoder = new TextEncoder();

export function zip(files: { name: string; text: string }[]): Blob {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let offset = 0;
  for (const { name, text } of files) {
    const [path, content] = [encoder.encode(name), encoder.encode(text)];
    // Version, flags (names in UTF-8), stored, the earliest time, checksum, two sizes, lengths of name and extra field.
    const common = [
      u16(20),
      u16(0x0800),
      u16(0),
      u16(0),
      u16(0x21),
      u32(crc32(content)),
      u32(content.length),
      u32(content.length),
      u16(path.length),
      u16(0),
    ];
    const local = joined([u32(0x04034b50), ...common, path, content]);
    directory.push(joined([u32(0x02014b50), u16(20), ...common, u16(0), u16(0), u16(0), u32(0), u32(offset), path]));
    parts.push(local);
    offset += local.length;
  }
  const size = directory.reduce((sum, entry) => sum + entry.length, 0);
  const end = joined([
    u32(0x06054b50),
    u16(0),
    u16(0),
    u16(files.length),
    u16(files.length),
    u32(size),
    u32(offset),
    u16(0),
  ]);
  return new Blob([...parts, ...directory, end] as Uint8Array<ArrayBuffer>[], { type: "application/zip" });
}

const u16 = (value: number) => new Uint8Array([value & 0xff, value >>> 8]);
const u32 = (value: number) =>
  new Uint8Array([value & 0xff, (value >>> 8) & 0xff, (value >>> 16) & 0xff, value >>> 24]);

function joined(parts: Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}
