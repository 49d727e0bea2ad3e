// x / (bias + alpha * the sum of squares over neighbouring channels) ** beta: one invocation for each texel.

struct Own {
    before: i32, after: i32,
    alpha: f32, beta: f32, bias: f32,
}

fn each_texel(at: vec4<i32>) {
    let own = vec4<i32>(0, 1, 2, 3) + vec4<i32>(at.w * 4);
    let first = max(0, at.w * 4 - p.own.before) / 4;
    let last = min(p.output.channels - 1, at.w * 4 + 3 + p.own.after) / 4;
    var sum = vec4<f32>();
    for (var slice = first; slice <= last; slice++) {
        let value = clean_0(at.x, at.y, at.z, slice);
        for (var k = 0; k < 4; k++) {
            let distance = vec4<i32>(slice * 4 + k) - own;
            let counts = (distance >= vec4<i32>(-p.own.before)) & (distance <= vec4<i32>(p.own.after));
            sum += select(vec4<f32>(), vec4<f32>(value[k] * value[k]), counts);
        }
    }
    let value = load_0(at.x, at.y, at.z, at.w);
    store(at.x, at.y, at.z, at.w, value / pow(sum * p.own.alpha + p.own.bias, vec4<f32>(p.own.beta)));
}
