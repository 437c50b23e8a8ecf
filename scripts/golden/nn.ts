// Writes the table of layers as JSON, for nn.py: npx tsx scripts/golden/nn.ts | python scripts/golden/nn.py test/golden/nn.safetensors
import { rows } from '../../test/nn/layers.rows.js';

console.log(JSON.stringify(rows));
