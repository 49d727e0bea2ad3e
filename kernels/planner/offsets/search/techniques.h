// The techniques of the offset search, by name. Each can be switched off: plans stay valid, and take more work or
// space.
#pragma once

#include <array>

namespace edgemem {

struct Techniques {
  // What the search of one part does in turns (part_search.h).
  bool skyline_passes = true;    // place greedily, in orders with and without noise
  bool plateau_searches = true;  // search depth first below the size aimed at, which may prove that there is no plan
  bool guessed_holes = true;     // search depth first, with room wasted only where the load suggests a hole
  bool rising_ceilings = true;   // search depth first, with a ceiling that rises when nothing gets deeper

  // In which order a depth-first search branches and tries (plateau.h).
  bool fewest_options_first = true;  // branch where the fewest options are left; else on the lowest plateau
  bool learn_from_failures = true;   // some searches: branch where failures were found often
  bool prefer_wall_contact = true;   // some searches: try first what fills the plateau or ends level with a wall

  // What a depth-first search leaves out (plateau.h).
  bool sides_of_pins = true;  // pieces on a side of a pin where the sizes say that they lie on the other (pin_sides.h)
  bool skip_identical_pieces = true;   // of equal pieces try one
  bool remember_failed_states = true;  // do not search a state again that failed
  bool jump_back = true;               // after a failure go back to the last choice that it depends on
};

struct NamedTechnique {
  const char* name;
  bool Techniques::* enabled;
};

// All of them.
inline constexpr std::array kTechniques{
    NamedTechnique{"skyline_passes", &Techniques::skyline_passes},
    NamedTechnique{"plateau_searches", &Techniques::plateau_searches},
    NamedTechnique{"guessed_holes", &Techniques::guessed_holes},
    NamedTechnique{"rising_ceilings", &Techniques::rising_ceilings},
    NamedTechnique{"fewest_options_first", &Techniques::fewest_options_first},
    NamedTechnique{"learn_from_failures", &Techniques::learn_from_failures},
    NamedTechnique{"prefer_wall_contact", &Techniques::prefer_wall_contact},
    NamedTechnique{"sides_of_pins", &Techniques::sides_of_pins},
    NamedTechnique{"skip_identical_pieces", &Techniques::skip_identical_pieces},
    NamedTechnique{"remember_failed_states", &Techniques::remember_failed_states},
    NamedTechnique{"jump_back", &Techniques::jump_back},
};
static_assert(sizeof(Techniques) == kTechniques.size(), "a technique has no name");

}  // namespace edgemem
