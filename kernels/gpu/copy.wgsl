// A tensor into its part of a concatenation along the batch, the height or the width: one invocation for each texel of
// that part, whose value `part` loads. Rows of a height that stands for several axes come in blocks, each of which goes to
// a block of the output.

struct Own {
    batch: i32, height: i32, width: i32,    // of the part
    b: i32, y: i32, x: i32,                 // where it begins in the output
    rows: i32, output_rows: i32,            // of a block in the part and in the output
}

fn each_invocation(group: vec3<u32>, groups: vec3<u32>, local: u32) {
    let texel = serial(group, groups, local, 64u);
    let column = texel / p.own.batch;
    let row = column / p.own.width;
    let slice = row / p.own.height;
    if (slice >= p.output.slices) {
        return;
    }
    let b = texel % p.own.batch;
    let x = column % p.own.width;
    let y = row % p.own.height;
    let output_y = (y / p.own.rows) * p.own.output_rows + y % p.own.rows + p.own.y;
    store(b + p.own.b, output_y, x + p.own.x, slice, finish(part(b, y, x, slice)));
}
