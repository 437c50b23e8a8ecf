// Short stories in simple English, made by a grammar from a seed: a text that a very small model can learn to write well.
// The same seed gives the same stories on every machine.

interface Person {
  readonly name: string;
  readonly kind: string;
  readonly he: 'he' | 'she';
  readonly his: 'his' | 'her';
  readonly him: 'him' | 'her';
}
const person = (name: string, kind: string, he: 'he' | 'she'): Person =>
  he === 'he' ? { name, kind, he, his: 'his', him: 'him' } : { name, kind, he, his: 'her', him: 'her' };

const PEOPLE: readonly Person[] = [
  person('Anna', 'girl', 'she'),
  person('Mia', 'girl', 'she'),
  person('Lily', 'girl', 'she'),
  person('Sara', 'girl', 'she'),
  person('Ben', 'boy', 'he'),
  person('Tom', 'boy', 'he'),
  person('Max', 'boy', 'he'),
  person('Sam', 'boy', 'he'),
];
const TRAITS = ['small', 'kind', 'brave', 'quiet', 'clever', 'happy', 'young'];
/** Each animal has its own food, sound and bed. */
const PETS = [
  { name: 'dog', eats: 'a bone', sound: 'barked', sleeps: 'by the door' },
  { name: 'cat', eats: 'some milk', sound: 'purred', sleeps: 'on the warm stove' },
  { name: 'rabbit', eats: 'a carrot', sound: 'jumped', sleeps: 'in the straw' },
  { name: 'duck', eats: 'some bread', sound: 'quacked', sleeps: 'next to the pond' },
  { name: 'horse', eats: 'an apple', sound: 'neighed', sleeps: 'in the barn' },
  { name: 'bird', eats: 'some seeds', sound: 'sang', sleeps: 'on a branch' },
];
/** Where people live, and what is found there. */
const PLACES = [
  { place: 'near the river', finds: 'a smooth stone', sees: 'a big fish' },
  { place: 'by the sea', finds: 'a white shell', sees: 'a ship with two sails' },
  { place: 'next to the forest', finds: 'a brown mushroom', sees: 'a young deer' },
  { place: 'on a green hill', finds: 'a blue flower', sees: 'the whole valley' },
  { place: 'in the mountains', finds: 'a clear crystal', sees: 'an eagle in the sky' },
  { place: 'on a farm', finds: 'an egg in the hay', sees: 'a fox behind the fence' },
];
const TIMES = [
  'One morning',
  'One day',
  'One evening',
  'On a sunny day',
  'On a cold day',
  'In the summer',
  'On Sunday',
];
const COLOURS = ['red', 'blue', 'green', 'yellow', 'white', 'brown'];
const FUR = ['white', 'black', 'brown', 'grey'];
const END = [
  'They laughed and went home together.',
  'From that day on they were good friends.',
  'It was the best day of the year.',
  'That night everyone slept well.',
  'Then it was time to go home.',
];

/** What can be lost, where it can be, and what it is for. */
const THINGS = [
  { thing: 'ball', places: ['under the table', 'behind the house', 'in the tall grass'], use: 'play in the garden' },
  { thing: 'hat', places: ['on the chair', 'under the bed', 'behind the door'], use: 'go out into the sun' },
  { thing: 'book', places: ['on the shelf', 'under the table', 'in the old box'], use: 'read a story' },
  { thing: 'kite', places: ['in the tall tree', 'on the roof', 'in the tall grass'], use: 'run in the wind' },
  { thing: 'key', places: ['under the bed', 'in a pocket', 'behind the door'], use: 'open the gate' },
  { thing: 'lamp', places: ['on the shelf', 'in the old box', 'in the kitchen'], use: 'walk in the dark' },
];
/** What can be made, of what, and what is done with it. */
const MADE = [
  { what: 'a cake', of: 'flour and eggs', after: 'ate it with a cup of tea' },
  { what: 'a boat', of: 'wood and paper', after: 'put it on the water and watched it go' },
  { what: 'a house for the birds', of: 'wood and nails', after: 'put it high up in a tree' },
  { what: 'a warm soup', of: 'carrots and beans', after: 'ate it by the fire' },
  { what: 'a snowman', of: 'snow and two stones', after: 'gave it an old hat' },
  { what: 'a song', of: 'a drum and a flute', after: 'sang it all evening' },
];
const WEATHER = [
  { comes: 'It began to rain', shelter: 'under a big tree', ends: 'the rain stopped', seen: 'a rainbow' },
  { comes: 'A strong wind came', shelter: 'behind a stone wall', ends: 'the wind was gone', seen: 'the blue sky' },
  { comes: 'It began to snow', shelter: 'in the old barn', ends: 'the snow stopped', seen: 'the white hills' },
  { comes: 'A thick fog came', shelter: 'in a small cave', ends: 'the fog was gone', seen: 'the road to the village' },
];

/** A number from 0 to 1, another at each call (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

type Choose = <T>(from: readonly T[]) => T;
const capital = (word: string): string => word[0]!.toUpperCase() + word.slice(1);

/** Who the story is about. */
function opening(choose: Choose) {
  const hero = choose(PEOPLE);
  const friend = choose(PEOPLE.filter((p) => p !== hero));
  const pet = choose(PETS);
  const home = choose(PLACES);
  const trait = choose(TRAITS);
  const who = choose([
    `${hero.name} was a ${trait} ${hero.kind} who lived ${home.place}.`,
    `There was a ${trait} ${hero.kind} named ${hero.name} who lived ${home.place}.`,
  ]);
  return { hero, friend, home, text: `${who} ${capital(hero.he)} had a ${pet.name}. ${choose(TIMES)} ${hero.he}` };
}

function lost(choose: Choose): string {
  const { hero, friend, text } = opening(choose);
  const { thing, places, use } = choose(THINGS);
  const found = choose(places);
  return [
    `${text} wanted to ${use}, but ${hero.he} could not find ${hero.his} ${choose(COLOURS)} ${thing}.`,
    `${capital(hero.he)} looked ${choose(places.filter((p) => p !== found))}, but the ${thing} was not there.`,
    `Then ${friend.name} came to help ${hero.him}, looked ${found} and found the ${thing}.`,
    `"Thank you," ${hero.he} said.`,
    choose(END),
  ].join(' ');
}

function made(choose: Choose): string {
  const { hero, friend, text } = opening(choose);
  const { what, of, after } = choose(MADE);
  return [
    `${text} wanted to make ${what} for ${friend.name}.`,
    `${capital(hero.he)} took ${of} and worked all day.`,
    `${capital(hero.he)} was not tired at all.`,
    `In the evening it was done. "This is for you," ${hero.he} said.`,
    `They ${after}.`,
    choose(END),
  ].join(' ');
}

function storm(choose: Choose): string {
  const { hero, friend, text } = opening(choose);
  const { comes, shelter, ends, seen } = choose(WEATHER);
  return [
    `${text} and ${friend.name} went for a walk.`,
    `${comes}, and they did not know where to go.`,
    `"Look," ${hero.he} said, "we can wait ${shelter}."`,
    `They sat ${shelter} and told each other stories.`,
    `When ${ends}, they saw ${seen}.`,
    choose(END),
  ].join(' ');
}

function animal(choose: Choose): string {
  const { hero, text } = opening(choose);
  const other = choose(PETS);
  return [
    `${text} heard a sound behind the house.`,
    `It was a little ${choose(FUR)} ${other.name} that had no home.`,
    `"You can stay with us," ${hero.he} said, and gave the ${other.name} ${other.eats}.`,
    `The ${other.name} ${other.sound}.`,
    `At night the ${other.name} slept ${other.sleeps}.`,
    choose(END),
  ].join(' ');
}

function walk(choose: Choose): string {
  const { hero, friend, home, text } = opening(choose);
  return [
    `${text} went out alone.`,
    `${capital(hero.he)} walked for an hour and saw ${home.sees}.`,
    `On the way back ${hero.he} found ${home.finds}.`,
    `${capital(hero.he)} gave it to ${friend.name}, who asked, "Will you show me the way?"`,
    `"Yes," ${hero.he} said, "we can go there tomorrow."`,
    choose(END),
  ].join(' ');
}

const PLOTS = [lost, made, storm, animal, walk];

/** `count` stories, each of six to eight sentences. */
export function stories(count: number, seed: number): string[] {
  const random = randomFrom(seed);
  const choose: Choose = (from) => from[Math.floor(random() * from.length)]!;
  return Array.from({ length: count }, () => choose(PLOTS)(choose));
}
