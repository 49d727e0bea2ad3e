// Functions of four numbers, by their names in edgemem.model.tensor_ops.Function; `n` holds their parameters.
// Only the texts of functions that are called are assembled. Arguments of exp and tanh are kept where f32 holds the
// result: drivers give NaN, not infinity or 1, for some of the others.

fn function_identity(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return v;
}

fn function_relu(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return max(v, vec4<f32>());
}

fn function_clip(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return min(max(v, n.xxxx), n.yyyy);
}

fn function_leaky_relu(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return select(v * n.x, v, v >= vec4<f32>());
}

fn function_elu(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return select(exp_less_one(min(v, vec4<f32>())) * n.x, v, v >= vec4<f32>());
}

fn function_selu(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return function_elu(v, n) * n.y;
}

fn function_celu(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return select(exp_less_one(min(v / n.x, vec4<f32>())) * n.x, v, v >= vec4<f32>());
}

fn function_sigmoid(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    let power = safe_exp(-abs(v));
    return select(power, vec4<f32>(1.0), v >= vec4<f32>()) / (power + 1.0);
}

fn function_hard_sigmoid(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return clamp(v * n.x + n.y, vec4<f32>(), vec4<f32>(1.0));
}

fn function_hard_swish(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return v * clamp(v + 3.0, vec4<f32>(), vec4<f32>(6.0)) / 6.0;
}

fn function_silu(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return v * function_sigmoid(v, n);
}

fn function_tanh(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return safe_tanh(v);
}

fn function_gelu(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return v * 0.5 * (function_erf(v * 0.70710678, n) + 1.0);
}

fn function_gelu_tanh(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return v * 0.5 * (safe_tanh((v + v * v * v * 0.044715) * 0.79788456) + 1.0);
}

fn function_mish(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return v * safe_tanh(function_softplus(v, n));
}

fn function_softplus(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return max(v, vec4<f32>()) + log_of_one_and(safe_exp(-abs(v)));
}

fn function_softsign(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return v / (abs(v) + 1.0);
}

fn function_exp(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return safe_exp(v);
}

fn function_log(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    let usual = select(log(max(v, vec4<f32>())), -1.0 / abs(v), v == vec4<f32>());
    return select(usual, sqrt(v), v < vec4<f32>());  // no number
}

fn function_sqrt(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return sqrt(v);
}

fn function_rsqrt(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return inverseSqrt(v);
}

fn function_reciprocal(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return 1.0 / v;
}

fn function_square(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return v * v;
}

fn function_abs(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return abs(v);
}

fn function_neg(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return -v;
}

fn function_sign(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return sign(v);
}

fn function_floor(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return floor(v);
}

fn function_ceil(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return ceil(v);
}

fn function_round(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return round(v);  // half to even, as WGSL says
}

fn function_trunc(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return trunc(v);
}

fn function_sin(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    let turns = round(v * 0.31830988618);
    return select(vec4<f32>(1.0), vec4<f32>(-1.0), is_odd(turns)) * sine(half_turns_less(v, turns));
}

fn function_cos(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    let turns = floor(v * 0.31830988618);
    return select(vec4<f32>(-1.0), vec4<f32>(1.0), is_odd(turns)) * sine(half_turns_less(v, turns + 0.5));
}

fn function_erf(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    // Abramowitz and Stegun, 7.1.26: the error is below 1.5e-7. Near 0 the Taylor series has a small relative error.
    let a = min(abs(v), vec4<f32>(4.0));
    let t = 1.0 / (a * 0.3275911 + 1.0);
    let sum = ((((t * 1.061405429 - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    let z = a * a;
    let near = a * ((((z * 5.2239776e-3 - 2.6866171e-2) * z + 1.1283792e-1) * z - 3.7612638e-1) * z + 1.1283792);
    return sign(v) * select(1.0 - sum * exp(-z), near, a < vec4<f32>(0.4));
}

fn function_not(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return select(vec4<f32>(), vec4<f32>(1.0), v == vec4<f32>());
}

fn function_is_nan(v: vec4<f32>, n: vec4<f32>) -> vec4<f32> {
    return select(vec4<f32>(), vec4<f32>(1.0), no_number(v));
}

// What the functions above share.

fn safe_exp(v: vec4<f32>) -> vec4<f32> {
    return select(exp(clamp(v, vec4<f32>(-104.0), vec4<f32>(88.72))), v * 3.4e38, v > vec4<f32>(88.72));
}

// exp(v) - 1 of numbers up to 0.
fn exp_less_one(v: vec4<f32>) -> vec4<f32> {
    let series = v * (v * (v * (v * (v * 0.008333333 + 0.041666668) + 0.16666667) + 0.5) + 1.0);
    return select(safe_exp(v) - 1.0, series, v > vec4<f32>(-0.1));
}

// log(1 + v) of numbers from 0 to 1.
fn log_of_one_and(v: vec4<f32>) -> vec4<f32> {
    let series = v * (1.0 - v * (0.5 - v * (0.33333334 - v * 0.25)));
    return select(log(v + 1.0), series, v < vec4<f32>(0.015));
}

// Near 0 a polynomial with the coefficients of tanhf in the Cephes library.
fn safe_tanh(v: vec4<f32>) -> vec4<f32> {
    let a = min(abs(v), vec4<f32>(10.0));
    let z = a * a;
    let sum = (((z * -5.70498872745e-3 + 2.06390887954e-2) * z - 5.37397155531e-2) * z + 1.33314422036e-1) * z;
    let near = a + a * z * (sum - 3.33332819422e-1);
    return sign(v) * select(1.0 - 2.0 / (exp(a * 2.0) + 1.0), near, a < vec4<f32>(0.625));
}

fn is_odd(v: vec4<f32>) -> vec4<bool> {
    return abs(v - floor(v * 0.5) * 2.0) == vec4<f32>(1.0);
}

// v - k * pi, with pi in three parts whose products with k are exact as long as k is small.
fn half_turns_less(v: vec4<f32>, k: vec4<f32>) -> vec4<f32> {
    return ((v - k * 3.140625) - k * 9.670257568359375e-4) - k * 6.2771141529083252e-7;
}

// The sine between -pi / 2 and pi / 2.
fn sine(v: vec4<f32>) -> vec4<f32> {
    let z = v * v;
    let sum = ((z * -2.5052108e-8 + 2.7557319e-6) * z - 1.9841270e-4) * z + 8.3333333e-3;
    return v + v * z * (sum * z - 0.16666667);
}
