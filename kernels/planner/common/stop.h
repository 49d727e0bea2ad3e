// Why a search ended: at the bound that every plan has, at a better one that it proved, or out of work or time.
#pragma once

namespace edgemem {

enum class Stop { kBound, kProof, kWork, kTime };

inline const char* name(Stop stop) {
  switch (stop) {
    case Stop::kBound:
      return "bound";
    case Stop::kProof:
      return "proof";
    case Stop::kWork:
      return "work";
    default:
      return "time";
  }
}

}  // namespace edgemem
