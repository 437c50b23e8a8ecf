// Finds the model to plan: by the name of a published one, or by its config.json. Weights are never read.
import { statSync } from 'node:fs';
import path from 'node:path';
import { ArgumentError } from '../../base/errors.js';
import { anyObject, readJsonSync } from '../../base/json.js';
import { nearest } from '../../base/options.js';
import { type DecoderConfig, QWEN3, readDecoderConfig } from '../../models/index.js';

export interface PlannedModel {
  readonly name: string;
  readonly config: DecoderConfig;
}

/** Finds a model: 'Qwen3-0.6B', '0.6B', 'Qwen/Qwen3-8B', a config.json, or its folder. */
export function findModel(given: string): PlannedModel {
  const size = /^(?:qwen\/)?(?:qwen3-)?(\d+(?:\.\d+)?b)$/i.exec(given)?.[1]?.toUpperCase();
  const config = QWEN3[size as keyof typeof QWEN3];
  if (config) return { name: `Qwen3-${size}`, config };
  const stat = statSync(given, { throwIfNoEntry: false });
  if (!stat) {
    const names = Object.keys(QWEN3).map((name) => `Qwen3-${name}`);
    const meant = nearest(given, names);
    throw new ArgumentError(
      `there is no model ${given}: use ${names.join(', ')}, the folder of a model, or the path of its config.json${meant ? ` (did you mean ${meant}?)` : ''}`,
    );
  }
  const file = stat.isDirectory() ? path.join(given, 'config.json') : given;
  const json = readJsonSync(file, anyObject);
  if (!json) throw new ArgumentError(`${given} has no config.json: it is not the folder of a model`);
  return { name: path.basename(path.dirname(path.resolve(file))), config: readDecoderConfig(json, file) };
}
