// SPDX-License-Identifier: BSD-2-Clause
//! kv HOST PORT: a client of samples/kv. Commands from standard input: 'put KEY
//! VALUE', 'get KEY', 'ask KEY', 'delete KEY', 'add NAME NUMBER'. 'get' reads
//! the server's memory, 'add' counts there, and the others ask the server. The
//! format of the bytes is that of samples/kv/wire.h.

use std::env;
use std::io::{stdin, BufRead};
use std::process::exit;
use std::time::Duration;

use rdmamsg::{Access, Context, Endpoint, EndpointOptions, Error, Key, Region};

const MAGIC: u32 = 0x6b76_3031;
const HEAD: usize = 24;
const KEY_MAX: usize = 40;
const SLOTS: u64 = 4096;
const SLOT: usize = 256;
const SLOT_HEAD: usize = 72;
const INLINE_MAX: usize = SLOT - SLOT_HEAD;
const GONE: u32 = u32::MAX;
const COUNTERS: u64 = 256;
const COUNTER: usize = 64;
const TRIES: usize = 1000;
const LIMIT: Option<Duration> = Some(Duration::from_secs(20));

const GET: u16 = 1;
const PUT: u16 = 2;
const DELETE: u16 = 3;
const ADD: u16 = 4;
const PLACE: u16 = 5;
const OK: u16 = 32;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The server's answer.
struct Answer {
    kind: u16,
    number: u64,
    value: Vec<u8>,
}

struct Client {
    _ctx: Context,
    ep: Endpoint,
    landing: Region,
    table: Key,
    counters: Key,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// FNV-1a, of words instead of bytes.
fn sum(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |sum: u64, chunk| {
        let mut word = (chunk.len() as u64).to_ne_bytes();
        word[..chunk.len()].copy_from_slice(chunk);
        let sum = sum ^ u64::from_ne_bytes(word);
        let sum = sum.wrapping_mul(0x100_0000_01b3);
        sum ^ (sum >> 32)
    })
}

/// False: the read has met a change, and brought a mixture.
fn is_whole(slot: &[u8]) -> bool {
    let key_len = u32_at(slot, 28) as usize;
    u64_at(slot, 0) == sum(&slot[8..]) && key_len <= KEY_MAX
}

impl Client {
    fn connect(host: &str, port: &str) -> Result<Client> {
        let ctx = Context::new()?;
        let opts = EndpointOptions::new().retry().max_msg_size(65536);
        let ep = ctx.connect_wait(host, port, opts)?;
        let hello = ep.peer_data()?;

        if hello.len() != 144 || u32_at(&hello, 0) != MAGIC {
            return Err("no kv-server of this version listens there".into());
        }
        let landing = Region::new(&ctx, SLOT, Access::LOCAL_WRITE)?;
        landing.register(&ep)?;
        let table = Key::from_bytes(&hello[16..48])?;
        let counters = Key::from_bytes(&hello[48..80])?;
        Ok(Client { _ctx: ctx, ep, landing, table, counters })
    }

    fn ask(
        &self,
        kind: u16,
        key: &str,
        value: &[u8],
        number: u64,
    ) -> Result<Answer> {
        let mut item = Vec::with_capacity(HEAD + key.len() + value.len());
        item.extend(MAGIC.to_ne_bytes());
        item.extend(kind.to_ne_bytes());
        item.extend((key.len() as u16).to_ne_bytes());
        item.extend((value.len() as u32).to_ne_bytes());
        item.extend(0u32.to_ne_bytes());
        item.extend(number.to_ne_bytes());
        item.extend(key.as_bytes());
        item.extend(value);
        self.ep.send(item)?;
        let msg = self.ep.recv(LIMIT)?;
        if msg.len() < HEAD || u32_at(&msg, 0) != MAGIC {
            return Err("the server's answer is malformed".into());
        }
        let key_len = u32_at(&msg, 4) >> 16;
        Ok(Answer {
            kind: u32_at(&msg, 4) as u16,
            number: u64_at(&msg, 16),
            value: msg[HEAD..].get(key_len as usize..).unwrap_or(&[]).to_vec(),
        })
    }

    fn read(&self, key: &Key, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.ep.at(key, offset).read(&self.landing, 0..len)?.wait(LIMIT)?;
        Ok(self.landing.to_vec(0..len)?)
    }

    /// None: it changes all the time.
    fn slot(&self, at: u64) -> Result<Option<Vec<u8>>> {
        for _ in 0..TRIES {
            let offset = SLOT as u64 * (1 + at % SLOTS);
            let slot = self.read(&self.table, offset, SLOT)?;
            if is_whole(&slot) {
                return Ok(Some(slot));
            }
        }
        Ok(None)
    }

    /// One-sided. The server answers for values that have no room in the slot.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let first = sum(key.as_bytes()) % SLOTS;
        for at in first..first + SLOTS {
            let slot = match self.slot(at)? {
                Some(slot) => slot,
                None => break,
            };
            if u64_at(&slot, 8) == 0 {
                return Ok(None);
            }
            let key_len = u32_at(&slot, 28) as usize;
            if &slot[32..32 + key_len] != key.as_bytes() {
                continue;
            }
            let len = u32_at(&slot, 24);
            if len == GONE {
                return Ok(None);
            }
            if len as usize <= INLINE_MAX {
                let value = &slot[SLOT_HEAD..SLOT_HEAD + len as usize];
                return Ok(Some(value.to_vec()));
            }
            break;
        }
        self.get_by_message(key)
    }

    fn get_by_message(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let answer = self.ask(GET, key, b"", 0)?;
        Ok((answer.kind == OK).then(|| answer.value))
    }

    /// The device counts; without atomic operations the server does.
    fn add(&self, name: &str, number: u64) -> Result<u64> {
        let place = self.ask(PLACE, name, b"", 0)?;
        if place.kind != OK || place.number >= COUNTERS {
            return Err("the server has no room for the counter".into());
        }
        let offset = place.number * COUNTER as u64;
        match self.ep.at(&self.counters, offset).fetch_add(number) {
            Ok(pending) => {
                let before = pending.wait(LIMIT)?;
                let words = self.read(&self.counters, offset, 16)?;
                Ok(before.wrapping_add(number).wrapping_add(u64_at(&words, 8)))
            }
            Err(Error::Unsupported(_) | Error::NoPermission(_)) => {
                Ok(self.ask(ADD, name, b"", number)?.number)
            }
            Err(e) => Err(e.into()),
        }
    }

    fn command(&self, line: &str) -> Result<String> {
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let shown = |key: &str, value: Option<Vec<u8>>| match value {
            Some(v) => format!("{key}: {}", String::from_utf8_lossy(&v)),
            None => format!("{key} is not there"),
        };
        let done = |kind, word| if kind == OK { word } else { "not there" };

        Ok(match words[..] {
            [_, key, ..] if key.len() > KEY_MAX => "too long".to_owned(),
            ["put", key, value] => {
                let answer = self.ask(PUT, key, value.as_bytes(), 0)?;
                let word = if answer.kind == OK { "stored" } else { "refused" };
                format!("{key} is {word}")
            }
            ["get", key] => shown(key, self.get(key)?),
            ["ask", key] => shown(key, self.get_by_message(key)?),
            ["delete", key] => {
                let answer = self.ask(DELETE, key, b"", 0)?;
                format!("{key} is {}", done(answer.kind, "deleted"))
            }
            ["add", name, number] => {
                format!("{name}: {}", self.add(name, number.parse()?)?)
            }
            _ => "none of put, get, ask, delete, add".to_owned(),
        })
    }
}

fn run(host: &str, port: &str) -> Result<()> {
    let client = Client::connect(host, port)?;

    for line in stdin().lock().lines() {
        println!("{}", client.command(&line?)?);
    }
    Ok(client.ep.close_wait(LIMIT)?)
}

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();

    if args.len() != 2 {
        eprintln!("Usage: kv HOST PORT");
        exit(2);
    }
    if let Err(e) = run(&args[0], &args[1]) {
        eprintln!("kv: {e}");
        exit(1);
    }
}
