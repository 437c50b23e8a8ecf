// Recovery from end to end for another architecture than Qwen3. More: test/slow/recovery-architectures.test.ts.
import { testRecovery } from './architecture-cases.js';

testRecovery('gemma3');
