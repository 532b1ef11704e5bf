// Who may ask, decided by the head of a request alone: names of the host, origins of web pages, keys, methods, media
// types and sizes. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http/message.h"

namespace strata::server::http {

struct AccessRules {
  std::vector<std::string> keys;             // any of them opens; empty: no key is asked for
  std::vector<std::string> hosts;            // names beside localhost and addresses, in small letters
  std::vector<std::string> origins;          // of pages that may read answers; "*" for all
  uint64_t max_body_bytes = 32 << 20;
};

// What is served under a path.
struct Route {
  bool get = false;  // and HEAD
  bool post = false;
  bool is_public = false;  // without a key
};

// The origin as CORS fields are to name it; nullopt when its pages may not read answers.
std::optional<std::string> shared_origin(const AccessRules& rules, const std::optional<std::string>& origin);

// Nothing when the request may be served; else why not. `route`: of its path; nullopt for an unknown one.
//
// A name in Host that is neither known nor an address belongs to somebody who has his name point here, so that a
// browser takes his page and this server for the same site; a key, which such a page doesn't have, makes the check
// needless. Of pages of other sites only the origins of the rules may ask, for browsers send requests without asking.
std::optional<Refusal> check_head(const RequestHead& head, const std::optional<Route>& route,
                                  const AccessRules& rules);

// The answer to OPTIONS, for what check_head() lets pass.
Answer preflight_answer(const RequestHead& head, const Route& route, const AccessRules& rules);

// Whether `given` is one of the keys. The time it takes depends on neither where they differ nor which of them fits.
bool is_key(std::string_view given, const std::vector<std::string>& keys);

// Keys, one a line, white space around them ignored. kBadInput for one that can't stand in a field, and for none at
// all; `origin` is the file's or flag's name. The message never quotes a key.
Result<std::vector<std::string>> parse_keys(std::string_view text, char separator, std::string_view origin);

// Nothing for what browsers send as an Origin, "scheme://host" with a port where it is not the scheme's own, and for
// "*". kBadInput for everything else, which no page would ever be recognised by; `flag` is where it was given.
Status check_origin_rule(std::string_view origin, std::string_view flag);
// The same for names of this server: a name or an address without scheme, port and path.
Status check_host_rule(const std::string& host, std::string_view flag);

// Nesting of arrays and objects, found without parsing: what stands in strings does not count. False for text that is
// nested deeper than `max_depth`; text that is no JSON passes, for the parser to refuse.
bool within_json_depth(std::string_view text, int max_depth);

}  // namespace strata::server::http
