package sluice

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"
)

// The scripts that count in a shared store, and what they are told. They are bucket.go and window.go once more, in
// Lua, with the server's clock, and the property test in redis_test.go holds the two to the same numbers.
//
// Lua's numbers are doubles, exact up to 2^53, and an int64 of nanoseconds is more than that. So a moment is two
// numbers: microseconds since 1970, which is what TIME gives and stays below 2^53 until the year 2255, and
// nanoseconds 0 to 999 beyond them; durations likewise. Sums and comparisons of such pairs are exact. Nothing is
// divided but whole microseconds and whole units, below 2^53 both, where a - a % b is exact. Everything else is left
// to Go: a script answers with the state in which it found a counter, and Go says what that means.
//
// All this is exact for every smooth bucket, since none takes more than 73 years to fill and at most twice that can
// be spent; for other kinds up to 2^51 units and with periods of whole microseconds, which sharable checks.
//
// A counter is one string, "at spent kind token", at in nanoseconds since 1970. It expires at the millisecond from
// which on it says as much as none. The policy's numbers are not in it, except what it takes to restate it under
// others. Keys are declared and share their middleware's hash slot; no command is used that a cluster or a managed
// service refuses. SET with PXAT needs Redis 6.2, of 2021.

const maxSharedUnits = 1 << 51

// scriptNow is the first line of each script. Tests put another in its place.
const scriptNow = `local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
`

// scriptCounters is what the scripts have in common. ARGV holds policyArguments numbers for each key.
const scriptCounters = `
local floor, format = math.floor, string.format

-- The counter of KEYS[i] under its policy. GET of what is no string, or of a string that is no counter, means none.
local function load(i)
  local a = (i - 1) * 10
  local kind, token = ARGV[a + 1], ARGV[a + 2]
  local c = {
    key = KEYS[i], kind = kind, token = token, at = now, rest = 0, spent = 0, room = false,
    units = tonumber(ARGV[a + 3]), unitsRest = tonumber(ARGV[a + 4]),
    capacity = tonumber(ARGV[a + 5]), capacityRest = tonumber(ARGV[a + 6]),
    period = tonumber(ARGV[a + 7]), refill = tonumber(ARGV[a + 8]), refills = tonumber(ARGV[a + 9]),
    option = tonumber(ARGV[a + 10])
  }
  local value = redis.pcall('GET', c.key)
  if type(value) ~= 'string' then return c end
  local at, rest, spent, wasKind, wasToken = string.match(value, '^(%d+)(%d%d%d) (%d+) (%d) (%d+)$')
  if not at then return c end
  c.at, c.rest, c.spent = tonumber(at), tonumber(rest), tonumber(spent)
  if wasKind ~= kind or wasToken ~= token then
    -- Other numbers since: tokens spent stay tokens spent. This is as exact as doubles are.
    local units = c.spent
    if wasKind == '0' then units = math.max((c.at - now) * 1000 + c.rest, 0) end
    units = math.ceil(units / tonumber(wasToken) * tonumber(token))
    if wasKind == '0' or kind == '0' then c.at, c.rest = now, 0 end
    c.spent = units
    if kind == '0' then
      c.at, c.rest, c.spent = now + floor(units / 1000), units % 1000, 0
    end
  end
  return c
end

-- settle of policy.go. More than the capacity is spent when gateways let too much pass, or when the server's clock was set back, or
-- that of another, which took over, is late: of that, the capacity again is owed, and debt microseconds of a smooth bucket.
local function settle(c, debt)
  if c.kind == '0' then
    if c.at < now then
      c.at, c.rest = now, 0
    elseif (c.at - now - 2 * c.capacity - debt) * 1000 + c.rest - 2 * c.capacityRest > 0 then
      c.at, c.rest = now + 2 * c.capacity + debt, 2 * c.capacityRest
      if c.rest >= 1000 then c.at, c.rest = c.at + 1, c.rest - 1000 end
    end
    return
  end
  c.at, c.spent = math.min(c.at, now), math.min(c.spent, 2 * c.capacity)
  local gone = now - c.at
  if c.kind == '1' then
    local periods = (gone - gone % c.period) / c.period
    if periods > 0 then
      c.at = c.at + periods * c.period
      if periods >= c.refills or periods * c.refill > c.spent then
        c.spent = 0
      else
        c.spent = c.spent - periods * c.refill
      end
    end
    if c.spent == 0 then c.at = now end
  elseif c.spent == 0 or gone >= c.period then
    c.at, c.spent = now, 0
    if c.kind == '3' then c.at = now - now % c.period end
  end
end

-- The settled counter as two numbers: what is spent, in units, and the microseconds since at, which a smooth bucket does without.
local function state(c)
  if c.kind == '0' then return format('%d%03d 0', c.at - now, c.rest) end
  return format('%d %d', c.spent, now - c.at)
end

-- take of policy.go, and the counter written, to expire when forgetting it changes nothing.
local function spend(c)
  local full
  if c.kind == '0' then
    c.at, c.rest = c.at + c.units, c.rest + c.unitsRest
    if c.rest >= 1000 then c.at, c.rest = c.at + 1, c.rest - 1000 end
    full = c.at + math.min(c.rest, 1)
  else
    c.spent = c.spent + c.units
    full = c.at + c.period
    if c.kind == '1' then
      local refills = c.spent + c.refill - 1
      full = c.at + (refills - refills % c.refill) / c.refill * c.period
    end
  end
  redis.call('SET', c.key, format('%d%03d %d %s %s', c.at, c.rest, c.spent, c.kind, c.token),
    'PXAT', format('%d', math.ceil(full / 1000)))
end
`

// strictText charges all limits of a request or none. It answers in one line: 1 or 0 for whether the request passes,
// and then each counter's state before it. option 1 is a limit in dry run: it refuses nothing, and is charged if it
// has room.
//
// What comes first is the same for the most frequent call, a single smooth bucket, at half the server's time: without
// the functions and tables, which Lua makes anew in each call. It leaves to the rest whatever is not as usual.
const strictText = `
if #KEYS == 1 and ARGV[1] == '0' and ARGV[10] == '0' then
  local value, at, rest = redis.pcall('GET', KEYS[1]), now, 0
  local usual = not value
  if type(value) == 'string' and string.sub(value, 20) == ' 0 0 ' .. ARGV[2] then
    at, rest = tonumber(string.sub(value, 1, 16)), tonumber(string.sub(value, 17, 19))
    usual = at and rest
  end
  if usual and at < now then at, rest = now, 0 end
  if usual and at - now <= 2 * ARGV[5] then
    local units, unitsRest = tonumber(ARGV[3]), tonumber(ARGV[4])
    local answer = string.format(' %d%03d 0', at - now, rest)
    if (at - now + (units - ARGV[5])) * 1000 + rest + (unitsRest - ARGV[6]) > 0 then return {ok = '0' .. answer} end
    at, rest = at + units, rest + unitsRest
    if rest >= 1000 then at, rest = at + 1, rest - 1000 end
    local full = at
    if rest > 0 then full = at + 1 end
    redis.call('SET', KEYS[1], string.format('%d%03d 0 0 %s', at, rest, ARGV[2]), 'PXAT', string.format('%d', math.ceil(full / 1000)))
    return {ok = '1' .. answer}
  end
end
` + scriptCounters + `
local function room(c)
  if c.kind == '0' then
    return (c.at - now + (c.units - c.capacity)) * 1000 + c.rest + (c.unitsRest - c.capacityRest) <= 0
  end
  return c.spent + c.units <= c.capacity
end

local counters, answer, passes = {}, {'1'}, true
for i = 1, #KEYS do
  local c = load(i)
  settle(c, 0)
  c.room = room(c)
  passes = passes and (c.room or c.option == 1)
  counters[i], answer[i + 1] = c, state(c)
end
if passes then
  for _, c in ipairs(counters) do
    if c.room then spend(c) end
  end
else
  answer[1] = '0'
end
return {ok = table.concat(answer, ' ')}
`

// settleText charges what gateways have already let pass, room or not, and answers with each counter's state after
// it. option is how many microseconds ago the first of it was, if that matters: a smooth bucket has been filling
// since then, so the charge is made as of then. What it gains in as long may be owed beyond what settle says, lest a
// bucket smaller than that forgets most of what was too much.
const settleText = scriptCounters + `
local answer = {}
for i = 1, #KEYS do
  local c = load(i)
  if c.kind == '0' then
    if c.at < now - c.option then c.at, c.rest = now - c.option, 0 end
  else
    settle(c, 0)
  end
  spend(c)
  settle(c, c.option)
  answer[i] = state(c)
end
return table.concat(answer, ' ')
`

// policyArguments is how many arguments a script has for each key.
const policyArguments = 10

// script is a script as it is sent.
type script struct {
	text, hash string
	// heads is a call by the script's hash, up to its keys, by their number. A server knows the hash once it has run
	// the text.
	heads []string
}

// maxScriptKeys bounds the keys of one call.
const maxScriptKeys = 64

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	s := &script{text: text, hash: hex.EncodeToString(sum[:])}
	for keys := 0; keys <= maxScriptKeys; keys++ {
		words := "*" + strconv.Itoa(3+keys*(1+policyArguments)) + "\r\n"
		s.heads = append(s.heads, words+arguments("EVALSHA", s.hash, strconv.Itoa(keys)))
	}
	return s
}

// byText is a call by hash as one by text.
func byText(s *script, call string) string {
	return strings.Replace(call, arguments("EVALSHA", s.hash), arguments("EVAL", s.text), 1)
}

// sharable says what keeps a policy from being counted exactly by the scripts, "" if nothing does.
func sharable(p *policy) string {
	switch {
	case p.kind == smoothBucket:
		return ""
	case p.capacity > maxSharedUnits:
		return "counts more than 2251799813685248 requests, or fractions of a token"
	case p.period%microsecond != 0:
		return "has a period that is not in whole microseconds"
	}
	return ""
}

const microsecond = second / 1_000_000

// policyNumbers encodes a policy and what to charge, in its units, as scripts read them.
func policyNumbers(p *policy, units, option int64) string {
	words := []int64{int64(p.kind), p.token, units, 0, p.capacity, 0, p.period / microsecond, 1, p.full / p.period, option}
	switch {
	case p.kind == smoothBucket:
		words[2], words[3] = units/microsecond, units%microsecond
		words[4], words[5] = p.capacity/microsecond, p.capacity%microsecond
	case p.kind == intervalBucket && p.refill < p.capacity:
		words[7] = p.refill
	case p.kind == intervalBucket:
		words[7] = p.capacity // one refill gives back all there is
	}
	var encoded strings.Builder
	for _, word := range words {
		encoded.WriteString(arguments(strconv.FormatInt(word, 10)))
	}
	return encoded.String()
}
