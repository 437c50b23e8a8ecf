// The version that package.json, the starter and CHANGELOG.md share. Plain JavaScript without dependencies: the release
// workflow runs it before anything is installed.
//   node scripts/version.mjs set 0.2.0      writes it everywhere, and dates what the changelog has under Unreleased
//   node scripts/version.mjs check [v0.2.0] exits with 1 where they differ, or a tag is not of this version
//   node scripts/version.mjs notes v0.2.0   prints the changelog's section, for the release's page
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Files with the version, and where in each. */
const PLACES = [
  ['package.json', ['version']],
  ['package-lock.json', ['version']],
  ['package-lock.json', ['packages', '', 'version']],
  ['packages/create-tsxla/package.json', ['version']],
];
const SEMVER = /^\d+\.\d+\.\d+(-[0-9a-z]+(\.[0-9a-z]+)*)?$/;
const UNRELEASED = '## Unreleased';

/** The sections of a changelog by their headings, in order. */
function sectionsOf(changelog) {
  const [, ...parts] = changelog.split(/^## /m);
  return parts.map((part) => {
    const end = part.indexOf('\n');
    return { heading: part.slice(0, end).trim(), text: part.slice(end + 1).trim() };
  });
}
const versionOf = (tag) => tag.replace(/^v/, '');

/** What a version changed, as the changelog has it. */
export function notes(changelog, tag) {
  const version = versionOf(tag);
  const section = sectionsOf(changelog).find(({ heading }) => heading.split(' ')[0] === version);
  if (!section)
    throw new Error(`CHANGELOG.md has no section for ${version}: run node scripts/version.mjs set ${version}`);
  if (!section.text) throw new Error(`CHANGELOG.md says nothing under ${version}`);
  return section.text;
}

/** The changelog with what was under Unreleased as the section of a version. */
export function dated(changelog, version, date) {
  if (sectionsOf(changelog).some(({ heading }) => heading.split(' ')[0] === version))
    throw new Error(`CHANGELOG.md has ${version} already`);
  const unreleased = sectionsOf(changelog).find(({ heading }) => heading === 'Unreleased');
  if (!unreleased?.text) throw new Error('CHANGELOG.md says nothing under Unreleased: there is nothing to release');
  return changelog.replace(UNRELEASED, `${UNRELEASED}\n\n## ${version} - ${date}`);
}

/** What does not agree in the repository at `root`: a sentence each. With a tag, the changelog must be ready for it. */
export function problems(root, tag) {
  const read = (file) => fs.readFileSync(path.join(root, file), 'utf8');
  const { version } = JSON.parse(read('package.json'));
  const found = SEMVER.test(version)
    ? []
    : [`package.json has ${version}, which is no version: write 1.2.3 or 1.2.3-rc.1`];
  for (const [file, keys] of PLACES) {
    const there = keys.reduce((value, key) => value?.[key], JSON.parse(read(file)));
    if (there !== version) found.push(`${file} has ${keys.join('.')} ${there}, and package.json ${version}`);
  }
  if (tag === undefined) return found;
  if (tag !== `v${version}`) found.push(`the tag is ${tag}, and package.json has ${version}: tag it v${version}`);
  const changelog = read('CHANGELOG.md');
  try {
    notes(changelog, version);
  } catch (e) {
    found.push(e.message);
  }
  const dates = sectionsOf(changelog).filter(({ heading }) => heading !== 'Unreleased');
  for (const { heading } of dates)
    if (!/^\S+ - \d{4}-\d{2}-\d{2}$/.test(heading))
      found.push(`CHANGELOG.md: "## ${heading}": write "## 1.2.3 - 2026-01-31"`);
  if (dates.length && dates[0].heading.split(' ')[0] !== version)
    found.push(`CHANGELOG.md: the newest version is ${dates[0].heading}, and package.json has ${version}`);
  if (sectionsOf(changelog).find(({ heading }) => heading === 'Unreleased')?.text)
    found.push(`CHANGELOG.md has lines under Unreleased that ${version} would leave out: move them below its heading`);
  return found;
}

/** Writes a version everywhere. */
export function set(root, version, date) {
  if (!SEMVER.test(version)) throw new Error(`${version} is no version: write 1.2.3 or 1.2.3-rc.1`);
  const changelog = path.join(root, 'CHANGELOG.md');
  fs.writeFileSync(changelog, dated(fs.readFileSync(changelog, 'utf8'), version, date));
  for (const [name, keys] of PLACES) {
    const file = path.join(root, name);
    const about = JSON.parse(fs.readFileSync(file, 'utf8'));
    keys.slice(0, -1).reduce((value, key) => value[key], about)[keys.at(-1)] = version;
    fs.writeFileSync(file, `${JSON.stringify(about, null, 2)}\n`);
  }
}

function main([command, argument, ...rest]) {
  const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
  if (rest.length || !(command === 'check' || (['set', 'notes'].includes(command) && argument)))
    throw new Error('use: node scripts/version.mjs set VERSION | check [TAG] | notes TAG');
  if (command === 'set') return set(root, versionOf(argument), new Date().toISOString().slice(0, 10));
  if (command === 'notes')
    return console.log(notes(fs.readFileSync(path.join(root, 'CHANGELOG.md'), 'utf8'), argument));
  const found = problems(root, argument);
  if (found.length) throw new Error(found.join('\n'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    main(process.argv.slice(2));
  } catch (e) {
    console.error(e.message);
    process.exitCode = 1;
  }
}
