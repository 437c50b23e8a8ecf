// What is in a zip, as its directory says.
import yauzl from 'yauzl';

export const namesIn = async (zip: Buffer): Promise<string[]> => {
  const opened = await yauzl.fromBufferPromise(zip);
  const names: string[] = [];
  for await (const entry of opened.eachEntry()) names.push(entry.fileName);
  return names;
};
