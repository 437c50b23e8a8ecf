// Which files are taken for secrets: by their names, and by what is in them.
import { expect, test } from 'vitest';
import { holdsSecret, isCredential } from '../../../dist/train/ray/credentials.js';

const SECRET =
  '.env .env.local a/.env.production prod.env .envrc x.tfvars x.tfvars.json terraform.tfstate.backup kubeconfig config/kubeconfig.yaml my-kubeconfig service-account.json ' +
  'netrc pip.conf .netrc.bak hf_token hf_token.txt .hf_token api_key.txt openai_api_keys apikey .wandb-api-key .vast_api_key passwords.txt access_token .vault_pass ' +
  'rclone.conf .config/rclone/rclone.conf clearml.conf credentials.tfrc.json .snowflake/connections.toml .dbt/profiles.yml .runpod/config.toml .secrets/a deploy_key token';
test('files that hold secrets, by their names', () => {
  expect(SECRET.split(' ').filter((name) => !isCredential(name))).toEqual([]);
});

const ORDINARY =
  'credentials.ts token.ts key.ts src/auth/token.py tokenizer.json tokenizer_config.json special_tokens_map.json tokens.txt tokens.json vocab.txt src/secrets.ts secret.py ' +
  'src/env.ts .env.example .env.sample env.d.ts history.ts credentials/index.ts secrets/index.ts token/index.ts service-account.ts password.ts api-key.ts apikeys.md kubeconfig.ts ' +
  'model.safetensors config.json data.csv tsconfig.json package-lock.json key password-reset.html';
test('files of ordinary projects are none', () => {
  expect(ORDINARY.split(' ').filter(isCredential)).toEqual([]);
});

const [key, body] = ['-----BEGIN RSA PRIVATE KEY-----', 'MIIEowIBAAKCAQEA'.repeat(4)]; // no key: as one looks
test.each([
  ['notes.txt', `${key}\n`],
  ['bom.txt', `\ufeff${key}\n`],
  ['values.yaml', `tls:\n  key: |\n    ${key}\n    ${body}`],
  ['notebook.ipynb', JSON.stringify({ source: [`k = '${key}\n${body}'`] })],
  ['key.ts', `const key = \`${key}\n${body}\`;`],
  ['aws.ini', `[default]\naws_secret_access_key = ${'wJalrXUtnF/'.repeat(4)}`],
  ['cluster.yaml', `users:\n- user:\n    client-key-data: ${body}`],
  ['login.py', `login('hf_${'aB3'.repeat(12)}')`],
  ['push.sh', `git push https://ghp_${'aB3'.repeat(12)}@github.com/a/b`],
  ['run.sh', `OPENAI_API_KEY=sk-proj-${'aB3_'.repeat(12)} node run.js`],
  ['account.json', '{"type": "service_account", "private_key": "x"}'],
])('%s holds a secret', (name, content) => {
  expect(holdsSecret(name, Buffer.from(content))).toBe(true);
});

test.each([
  ['re.ts', 'const re = /-----BEGIN PRIVATE KEY-----/'],
  ['text.md', `A key begins with ${key} and has lines of base64.`],
  ['ca.crt', '-----BEGIN CERTIFICATE-----\nMIID'],
  ['style.css', '.sk-loading-indicator-of-the-largest-panel-in-the-page { }'],
  ['names.py', "hf_model = 'hf_internal_testing'; xox = 1"],
  ['tokenizer.json', '{"model": {"vocab": {"private_key": 17, "sk-": 3, "ghp_": 4}}}'],
])('%s holds none', (name, content) => {
  expect(holdsSecret(name, Buffer.from(content))).toBe(false);
});
