// PNG files of 8-bit RGB and RGBA pixels.
import { deflateSync } from 'node:zlib';
import { crc32 } from '../base/checksum.js';

const SIGNATURE = Buffer.from('\x89PNG\r\n\x1a\n', 'latin1');
const COLOR_TYPE = { 3: 2, 4: 6 } as const;

function chunk(type: string, data: Uint8Array): Buffer {
  const bytes = Buffer.alloc(data.length + 12);
  bytes.writeUInt32BE(data.length, 0);
  bytes.write(type, 4, 'latin1');
  bytes.set(data, 8);
  bytes.writeUInt32BE(crc32(bytes.subarray(4, data.length + 8)), data.length + 8);
  return bytes;
}

/** Encodes pixels, row by row, each with its channels. */
export function pngOf(pixels: Uint8Array, width: number, height: number, channels: 3 | 4): Uint8Array {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, COLOR_TYPE[channels], 0, 0, 0], 8); // bits, colours; deflate, filters, not interlaced
  const stride = width * channels;
  const rows = Buffer.alloc((stride + 1) * height); // each row starts with its filter: none
  for (let y = 0; y < height; y++) rows.set(pixels.subarray(y * stride, (y + 1) * stride), y * (stride + 1) + 1);
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', new Uint8Array()),
  ]);
}
