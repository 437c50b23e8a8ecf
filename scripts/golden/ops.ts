// Writes the table of operations as JSON, for ops.py: npx tsx scripts/golden/ops.ts [FAMILY ...] | python scripts/golden/ops.py test/golden/ops
import { tables } from '../../test/ops/tables.js';

const wanted = process.argv.slice(2);
const families = tables.filter((t) => !wanted.length || wanted.includes(t.family));
console.log(JSON.stringify(families.map(({ family, rows }) => ({ family, rows }))));
