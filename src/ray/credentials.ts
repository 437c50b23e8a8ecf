// Files that hold secrets, by their names and by what is in them. They stay on this machine unless git tracks them or the
// user names them one by one.

/** Folders whose files are secrets. */
const FOLDERS = [
  '.ssh',
  '.aws',
  '.gnupg',
  '.kube',
  '.azure',
  '.oci',
  '.gcloud',
  '.huggingface',
  '.kaggle',
  '.password-store',
  'keyrings',
  'legacy_credentials',
];

/** Names of files, in lower case. */
const NAMES = [
  /^\.env(?!.*\.(example|sample|template|dist)$)/,
  /\.env$/,
  /^[._]netrc$/,
  /^\.(npmrc|pnpmrc|yarnrc|yarnrc\.yml|pypirc|pgpass|my\.cnf|mylogin\.cnf|s3cfg|boto|htpasswd|dockercfg|dockerconfigjson)$/,
  /^\.(vault-token|terraformrc|databrickscfg|modal\.toml|authinfo|authinfo\.gpg|git-credentials|secrets?|token)$/,
  /^\.[a-z_]*history$/,
  /^id_(rsa|dsa|ecdsa|ed25519|xmss)/,
  /\.(pem|key|p8|p12|pfx|jks|keystore|ppk|kdbx|ovpn|tfstate|tfvars|token|secrets?)$/,
  /^(credentials?|secrets?|token|kubeconfig|stored_tokens)$/,
  /^(credentials?|secrets?)\.(json|ya?ml|toml|ini|conf|cfg|csv|txt|db|properties)$/,
  /^(access_tokens\.db|application_default_credentials\.json|kaggle\.json|auth\.json)$/,
  /^(client[-_]?secret|.*service[-_]?account).*\.json$/,
];
/** Whole paths, in lower case. */
const PLACES = [
  /(^|\/)\.docker\/config\.json$/,
  /(^|\/)\.git\/(.*\/)?config$/, // its URLs may have tokens
  /(^|\/)\.config\/(gcloud|gh|pip|op)\//,
  /(^|\/)\.(pip|config\/pip)\/pip\.conf$/,
  /(^|\/)\.(cargo|gem)\/credentials/,
  /(^|\/)\.m2\/settings(-security)?\.xml$/,
];

/** What editors and people put behind the name of a copy. */
const COPY = /(~|#|[ ._-](bak|backup|old|orig|save|copy|tmp|sw[op]|\d+))+$/;

/** Whether a file is one that holds secrets, by its path in the project with slashes. */
export function isCredential(name: string): boolean {
  const lower = name.toLowerCase();
  const parts = lower.split('/');
  const last = parts.at(-1)!;
  const original = last.replace(/^(\.?#)/, '').replace(COPY, '');
  const names = [last, original, original.replace(/^\./, '')]; // vim's copy of a is .a.swp
  return (
    parts.slice(0, -1).some((part) => FOLDERS.includes(part)) ||
    NAMES.some((pattern) => names.some((one) => pattern.test(one))) ||
    PLACES.some((pattern) => pattern.test(lower))
  );
}

const LOOKED_AT = 2 ** 16;
const PRIVATE_KEY = /^(-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----|PuTTY-User-Key-File-\d)/m;
const JSON_SECRET = /"(private_key|refresh_token|client_secret|aws_secret_access_key|secretaccesskey)"\s*:\s*"[^"]/i;

/** Whether a file begins with a private key, or is JSON with a secret, whatever its name is. */
export function holdsSecret(name: string, content: Uint8Array): boolean {
  const text = Buffer.from(content.buffer, content.byteOffset, Math.min(content.length, LOOKED_AT)).toString('latin1');
  return PRIVATE_KEY.test(text) || (/\.json$/i.test(name) && JSON_SECRET.test(text));
}

/** What only a home folder has: no project is uploaded that has one of them. */
export const MARKS_OF_HOME = [
  '.ssh',
  '.gnupg',
  '.aws/credentials',
  '.kube/config',
  '.config/gcloud',
  '.bash_history',
  '.zsh_history',
];
