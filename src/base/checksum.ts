// Checksums of bytes: CRC-32 (zip, PNG) and CRC-32C (TFRecord).
import zlib from 'node:zlib';

function tableOf(polynomial: number): Uint32Array {
  return Uint32Array.from({ length: 256 }, (_, n) => {
    for (let bit = 0; bit < 8; bit++) n = n & 1 ? (n >>> 1) ^ polynomial : n >>> 1;
    return n;
  });
}
/** The checksum of bytes, continued from `before`, the checksum of the bytes preceding them. */
type Checksum = (bytes: Uint8Array, before?: number) => number;
function checksum(polynomial: number): Checksum {
  const table = tableOf(polynomial);
  return (bytes, before = 0) => {
    let crc = ~before;
    for (let i = 0; i < bytes.length; i++) crc = (crc >>> 8) ^ table[(crc ^ bytes[i]!) & 0xff]!;
    return ~crc >>> 0;
  };
}

/** Node has its own from 20.15 on. */
export const crc32: Checksum = (zlib.crc32 as typeof zlib.crc32 | undefined) ?? checksum(0xedb88320);
export const crc32c: Checksum = checksum(0x82f63b78);
