//! Metrics stores of clouds, with servers that behave like the clouds': they give tokens and keys only for correct
//! requests, and the stores verify every signature themselves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use headroom_fixtures::fake_prometheus::{self, MATRIX};
use headroom_fixtures::http::{FakeServer, Reply, answer, header};
use headroom_metrics_stores::cloud_auth::{Cloud, Identity};
use headroom_metrics_stores::http::{Authentication, Endpoint};
use headroom_metrics_stores::prometheus::{Prometheus, PrometheusOptions};
use headroom_metrics_stores::{Source, SourceError};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use ring::{digest, hmac};

use crate::prometheus::new_source;

fn authorized(asked: &str) -> Reply {
    fake_prometheus::reply(asked, || answer(200, MATRIX))
}

async fn connect(cloud: Cloud, url: &str, environment: &[(&str, &str)]) -> Result<Prometheus, SourceError> {
    let environment: BTreeMap<_, _> = environment.iter().copied().collect();
    let look_up = |name: &str| environment.get(name).map(|value| (*value).to_owned());
    let authentication = Authentication::Cloud(Arc::new(Identity::new(cloud, url, &look_up)?));
    let source = new_source(PrometheusOptions::new(Endpoint { authentication, ..Endpoint::new(url) }));
    source.cluster().await.map(|_| source)
}

/// A store that accepts only the newest of the tokens `t1`, `t2`, ….
fn store_for_newest(given: &Arc<AtomicUsize>) -> FakeServer {
    let given = given.clone();
    FakeServer::start(move |asked| {
        let newest = format!("Bearer t{}", given.load(Ordering::SeqCst));
        match header(asked, "authorization") == Some(newest.as_str()) {
            true => authorized(asked),
            false => answer(401, "who are you?"),
        }
    })
}

/// A server that gives `token` with the number of the next token if a request is right, and else refuses it.
fn tokens(
    given: &Arc<AtomicUsize>,
    is_right: impl Fn(&str) -> bool + Send + Sync + 'static,
    token: impl Fn(usize) -> String + Send + Sync + 'static,
    refusal: &'static str,
) -> FakeServer {
    let given = given.clone();
    FakeServer::start_raw(move |asked| match is_right(asked) {
        true => answer(200, &token(given.fetch_add(1, Ordering::SeqCst) + 1)),
        false => answer(400, refusal),
    })
}

fn has_fields(asked: &str, fields: &[(&str, &str)]) -> bool {
    let (_, body) = asked.split_once("\r\n\r\n").unwrap();
    let form: BTreeMap<_, _> = form_urlencoded::parse(body.as_bytes()).collect();
    fields.iter().all(|(name, value)| form.get(*name).is_some_and(|found| found == value))
}

#[track_caller]
fn check_refused<T>(result: Result<T, SourceError>, words: &[&str]) {
    let refused = result.err();
    let text = refused.iter().map(|error| error.to_string()).collect::<String>();
    let is_permanent = refused.as_ref().is_some_and(SourceError::is_permanent);
    assert!(is_permanent && words.iter().all(|word| text.contains(word)), "{refused:?}");
}

#[tokio::test]
async fn google_gives_a_token_that_is_kept_and_renewed() {
    let given = Arc::new(AtomicUsize::new(0));
    let lasts = Arc::new(AtomicUsize::new(3600));
    let metadata = {
        let lasts = lasts.clone();
        let is_right = |asked: &str| {
            header(asked, "metadata-flavor") == Some("Google")
                && asked.starts_with("GET /computeMetadata/v1/instance/service-accounts/default/token?")
                && asked.contains("auth%2Fmonitoring.read")
        };
        let token = move |number| {
            let lasts = lasts.load(Ordering::SeqCst);
            format!(r#"{{"access_token":"t{number}","expires_in":{lasts},"token_type":"Bearer"}}"#)
        };
        tokens(&given, is_right, token, "Missing Metadata-Flavor:Google header.")
    };
    let store = store_for_newest(&given);
    let host = format!("127.0.0.1:{}", metadata.port);
    let url = format!("{}/v1/projects/p/location/global/prometheus", store.url());
    let source = connect(Cloud::Google, &url, &[("GCE_METADATA_HOST", &host)]).await.unwrap();
    assert_eq!(given.load(Ordering::SeqCst), 1, "expected one token for many queries");
    // Google's gateway refuses unknown parameters.
    let asked = store.asked_for("GET /v1/projects/p/location/global/prometheus/api/v1/query?");
    assert!(!asked.is_empty() && !asked.iter().any(|head| head.contains("nocache") || head.contains("partial")));

    // Revoked: the next query gets a 401, fetches another token and continues.
    given.fetch_add(1, Ordering::SeqCst);
    assert_eq!(source.now().await, Ok(13_600));
    assert_eq!(given.load(Ordering::SeqCst), 3);

    // Near its end a token is renewed before it is used.
    lasts.store(200, Ordering::SeqCst);
    given.fetch_add(1, Ordering::SeqCst);
    for _ in 0..2 {
        let answer = source.api.http.get("/api/v1/query", &[("query", "vector(time())")]).await.unwrap();
        assert_eq!(answer.status, 200);
    }
    assert_eq!(given.load(Ordering::SeqCst), 6, "expected one for the 401, and one because 200 s expire soon");
}

#[tokio::test]
async fn errors_of_an_unknown_identity_have_advice() {
    let metadata = FakeServer::start(|_| answer(404, "no service account"));
    let store = FakeServer::start(authorized);
    let host = format!("127.0.0.1:{}", metadata.port);
    let refused = connect(Cloud::Google, &store.url(), &[("GCE_METADATA_HOST", &host)]).await;
    check_refused(refused, &["no service account", "roles/monitoring.viewer"]);
    assert!(store.asked.lock().unwrap().is_empty(), "a request was sent without a token");
}

#[tokio::test]
async fn outside_the_cloud_the_error_says_what_to_set() {
    for (cloud, variable, expected) in [
        (Cloud::Google, "GCE_METADATA_HOST", "GOOGLE_APPLICATION_CREDENTIALS"),
        (Cloud::Azure, "AZURE_POD_IDENTITY_AUTHORITY_HOST", "AZURE_FEDERATED_TOKEN_FILE"),
        (Cloud::Aws, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_ACCESS_KEY_ID"),
    ] {
        let unreachable = if cloud == Cloud::Google { "127.0.0.1:1" } else { "http://127.0.0.1:1" };
        let refused = connect(cloud, "http://127.0.0.1:1", &[(variable, unreachable), REGION]).await.err();
        assert!(
            matches!(&refused, Some(SourceError::Temporary(text)) if text.contains("Connection refused") && text.contains(expected)),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn google_cloud_monitoring_is_read_without_scraped_metrics() {
    let metadata = FakeServer::start(|_| answer(200, r#"{"access_token":"t1","expires_in":3600}"#));
    let none = || answer(200, r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#);
    let store = FakeServer::start(move |asked| {
        let is_scraped =
            asked.contains("container_cpu_usage_seconds") || asked.contains("container_memory_working_set");
        if is_scraped || asked.contains(r#"image!="""#) && !asked.contains("metadata_system_container_image") {
            none()
        } else {
            authorized(asked)
        }
    });
    let host = format!("127.0.0.1:{}", metadata.port);
    let source = connect(Cloud::Google, &store.url(), &[("GCE_METADATA_HOST", &host)]).await.unwrap();
    let window = headroom_usage::sample::Window { from: 6000, to: 9600 };
    source.read(&["shop"], window, &mut |_| {}).await.unwrap();
    let asked = store.asked_for("GET /api/v1/query_range?");
    let question = |words: &[&str]| asked.iter().any(|head| words.iter().all(|word| head.contains(word)));
    let place = r#"{namespace_name="shop",pod_name!="",container_name!="",container_name!="POD""#;
    let labels = "max by (namespace_name, pod_name, container_name, metadata_system_container_image)";
    assert!(question(&[labels, &format!("kubernetes_io:container_cpu_core_usage_time{place}}}")]), "{asked:#?}");
    let memory = format!(r#"kubernetes_io:container_memory_used_bytes{place},memory_type="non-evictable"}}"#);
    assert!(question(&[labels, &memory]), "{asked:#?}");
}

#[tokio::test]
async fn azure_exchanges_the_token_of_a_pod() {
    let given = Arc::new(AtomicUsize::new(0));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "of-the-pod\n").unwrap();
    let is_right = |asked: &str| {
        let fields = [
            ("client_assertion", "of-the-pod"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_id", "client-1"),
            ("grant_type", "client_credentials"),
            ("scope", "https://prometheus.monitor.azure.com/.default"),
        ];
        asked.starts_with("POST /tenant-1/oauth2/v2.0/token ")
            && header(asked, "content-type") == Some("application/x-www-form-urlencoded")
            && has_fields(asked, &fields)
    };
    let token = |number| format!(r#"{{"token_type":"Bearer","expires_in":3599,"access_token":"t{number}"}}"#);
    let refusal = r#"{"error":"invalid_request","error_description":"AADSTS900144"}"#;
    let authority = tokens(&given, is_right, token, refusal);
    let store = store_for_newest(&given);
    let url = authority.url();
    let environment = [
        ("AZURE_AUTHORITY_HOST", url.as_str()),
        ("AZURE_TENANT_ID", "tenant-1"),
        ("AZURE_CLIENT_ID", "client-1"),
        ("AZURE_FEDERATED_TOKEN_FILE", file.to_str().unwrap()),
    ];
    connect(Cloud::Azure, &store.url(), &environment).await.unwrap();
    assert_eq!(given.load(Ordering::SeqCst), 1);

    let mut unknown = environment;
    unknown[2].1 = "client-2";
    let refused = connect(Cloud::Azure, &store.url(), &unknown).await;
    check_refused(refused, &["AADSTS900144", "Monitoring Data Reader"]);
    check_refused(connect(Cloud::Azure, &store.url(), &environment[3..]).await, &["AZURE_CLIENT_ID"]);
}

#[tokio::test]
async fn azure_gives_a_token_to_a_machine() {
    let given = Arc::new(AtomicUsize::new(0));
    let is_right = |asked: &str| {
        let target = "GET /metadata/identity/oauth2/token?api-version=2018-02-01&\
                      resource=https%3A%2F%2Fprometheus.monitor.azure.com ";
        header(asked, "metadata") == Some("true") && asked.starts_with(target)
    };
    // This server returns numbers as strings.
    let token = |number| format!(r#"{{"access_token":"t{number}","expires_in":"86399","token_type":"Bearer"}}"#);
    let metadata = tokens(&given, is_right, token, r#"{"error":"invalid_request"}"#);
    let store = store_for_newest(&given);
    let url = metadata.url();
    connect(Cloud::Azure, &store.url(), &[("AZURE_POD_IDENTITY_AUTHORITY_HOST", &url)]).await.unwrap();
    assert_eq!(given.load(Ordering::SeqCst), 1);
}

const SECRET: &str = "s+ec/ret=";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A store of Amazon, which computes the signature of the received request and compares.
fn signed_store(session: Option<&'static str>) -> FakeServer {
    FakeServer::start_raw(move |asked| {
        let (head, body) = asked.split_once("\r\n\r\n").unwrap();
        let mut first = head.lines().next().unwrap().split(' ');
        let (method, target) = (first.next().unwrap(), first.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let moment = header(asked, "x-amz-date").unwrap_or_default();
        if header(asked, "x-amz-security-token") != session {
            return answer(403, r#"{"message":"The security token included in the request is invalid"}"#);
        }
        let names = if session.is_some() { "host;x-amz-date;x-amz-security-token" } else { "host;x-amz-date" };
        let headers: String =
            names.split(';').map(|name| format!("{name}:{}\n", header(asked, name).unwrap())).collect();
        let mut pairs: Vec<_> = query.split('&').collect();
        pairs.sort_unstable();
        let hash = |text: &str| hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
        let canonical = format!("{method}\n{path}\n{}\n{headers}\n{names}\n{}", pairs.join("&"), hash(body));
        let scope = format!("{}/eu-central-1/aps/aws4_request", &moment[..8]);
        let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hash(&canonical));
        let sign = |key: &[u8], text: &str| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
        };
        let key = scope.split('/').fold(format!("AWS4{SECRET}").into_bytes(), |key, part| sign(&key, part));
        let expected = format!(
            "AWS4-HMAC-SHA256 Credential=AKID/{scope}, SignedHeaders={names}, Signature={}",
            hex(&sign(&key, &text))
        );
        match header(asked, "authorization") == Some(expected.as_str()) {
            true => authorized(target),
            false => answer(403, r#"{"message":"The request signature we calculated does not match"}"#),
        }
    })
}

const REGION: (&str, &str) = ("AWS_REGION", "eu-central-1");

async fn check_amazon(store: &FakeServer, environment: &[(&str, &str)]) -> Result<(), SourceError> {
    let environment: Vec<_> = environment.iter().copied().chain([REGION]).collect();
    let url = format!("{}/workspaces/ws-1", store.url());
    let source = connect(Cloud::Aws, &url, &environment).await?;
    let window = headroom_usage::sample::Window { from: 6000, to: 9600 };
    source.read(&["a shop"], window, &mut |_| {}).await
}

#[tokio::test]
async fn amazon_requests_are_signed_with_keys_in_the_environment() {
    let keys = [("AWS_ACCESS_KEY_ID", "AKID"), ("AWS_SECRET_ACCESS_KEY", SECRET)];
    check_amazon(&signed_store(None), &keys).await.unwrap();
    let session = [keys[0], keys[1], ("AWS_SESSION_TOKEN", "se+ss/ion==")];
    check_amazon(&signed_store(Some("se+ss/ion==")), &session).await.unwrap();
    let refused = check_amazon(&signed_store(None), &[keys[0], ("AWS_SECRET_ACCESS_KEY", "other")]).await;
    assert!(
        matches!(&refused, Err(SourceError::Forbidden(text)) if text.contains("signature") && !text.contains("other")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn amazon_gives_keys_to_a_service_account() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "web.identity.token\n").unwrap();
    let sts = FakeServer::start_raw(|asked| {
        let fields = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("WebIdentityToken", "web.identity.token"),
            ("RoleSessionName", "headroom-collector"),
            ("RoleArn", "arn:aws:iam::1:role/reader"),
        ];
        if !asked.starts_with("POST / ") || !has_fields(asked, &fields) {
            return answer(403, "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>");
        }
        let keys = format!(
            "<AccessKeyId>AKID</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>\
             <SessionToken>session</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration>"
        );
        answer(
            200,
            &format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>{keys}</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            ),
        )
    });
    let (url, token) = (sts.url(), file.path().to_str().unwrap());
    let with_role =
        |role| [("AWS_ENDPOINT_URL_STS", url.as_str()), ("AWS_WEB_IDENTITY_TOKEN_FILE", token), ("AWS_ROLE_ARN", role)];
    let store = signed_store(Some("session"));
    check_amazon(&store, &with_role("arn:aws:iam::1:role/reader")).await.unwrap();
    assert_eq!(sts.asked.lock().unwrap().len(), 1, "expected the keys to be cached");
    check_refused(check_amazon(&store, &with_role("arn:aws:iam::1:role/other")).await, &["does the role exist"]);
}

fn keys_until(until: &str) -> String {
    format!(
        r#"{{"AccessKeyId":"AKID","SecretAccessKey":"{SECRET}","Token":"session","Expiration":"{until}","RoleArn":"x"}}"#
    )
}

#[tokio::test]
async fn amazon_gives_keys_to_a_pod_or_task() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "of-the-pod").unwrap();
    let agent = FakeServer::start(|asked| {
        match asked.starts_with("GET /v1/credentials ") && header(asked, "authorization") == Some("of-the-pod") {
            true => answer(200, &keys_until("2999-01-01T00:00:00Z")),
            false => answer(401, "no"),
        }
    });
    let (url, token) = (format!("{}/v1/credentials", agent.url()), file.path().to_str().unwrap());
    let environment =
        [("AWS_CONTAINER_CREDENTIALS_FULL_URI", url.as_str()), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)];
    check_amazon(&signed_store(Some("session")), &environment).await.unwrap();
}

#[tokio::test]
async fn amazon_gives_keys_to_a_machine_and_new_ones_before_they_expire() {
    const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
    let metadata = FakeServer::start(|asked| {
        if asked.starts_with("PUT /latest/api/token ") && asked.contains("ttl-seconds: ") {
            return answer(200, "of-the-machine");
        }
        if header(asked, "x-aws-ec2-metadata-token") != Some("of-the-machine") {
            return answer(401, "no");
        }
        if asked.starts_with(&format!("GET {ROLES}reader ")) {
            // Long expired, so that new ones are requested each time.
            answer(200, &keys_until("2020-01-01T00:00:00Z"))
        } else if asked.starts_with(&format!("GET {ROLES} ")) {
            answer(200, "reader")
        } else {
            answer(404, "")
        }
    });
    let url = metadata.url();
    check_amazon(&signed_store(Some("session")), &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)]).await.unwrap();
    assert!(metadata.asked_for(&format!("GET {ROLES}reader ")).len() > 1);
}

/// A file with Google credentials, and the public key for its private key.
fn key_file(folder: &std::path::Path, token_uri: &str) -> (std::path::PathBuf, Vec<u8>) {
    let made = std::process::Command::new("openssl")
        .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let pem = String::from_utf8(made.stdout).unwrap();
    let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let key = RsaKeyPair::from_pkcs8(&STANDARD.decode(text).unwrap()).unwrap();
    let path = folder.join("key.json");
    let object = serde_json::json!({
        "type": "service_account", "client_email": "reader@p.example", "private_key": pem, "private_key_id": "k1",
        "token_uri": token_uri, "project_id": "p",
    });
    std::fs::write(&path, object.to_string()).unwrap();
    (path, key.public().as_ref().to_vec())
}

#[tokio::test]
async fn google_accepts_the_signature_of_a_service_account() {
    let folder = tempfile::tempdir().unwrap();
    let public = Arc::new(std::sync::Mutex::new((String::new(), Vec::new())));
    let given = Arc::new(AtomicUsize::new(0));
    let tokens = {
        let public = public.clone();
        let is_right = move |asked: &str| {
            let (_, body) = asked.split_once("\r\n\r\n").unwrap();
            let form: BTreeMap<_, _> = form_urlencoded::parse(body.as_bytes()).collect();
            let (url, key) = public.lock().unwrap().clone();
            let assertion = form.get("assertion").map_or("", AsRef::as_ref);
            let (signed, signature) = assertion.rsplit_once('.').unwrap_or_default();
            let part = |place: usize| -> serde_json::Value {
                let part = signed.split('.').nth(place).unwrap_or_default();
                serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap_or_default()).unwrap_or_default()
            };
            let (header, claims) = (part(0), part(1));
            let is_signed = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key)
                .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).unwrap_or_default())
                .is_ok();
            is_signed
                && asked.starts_with("POST /token ")
                && has_fields(asked, &[("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")])
                && (header["alg"] == "RS256" && header["kid"] == "k1")
                && (claims["iss"] == "reader@p.example" && claims["aud"] == url.as_str())
                && claims["scope"] == "https://www.googleapis.com/auth/monitoring.read"
                && claims["exp"].as_i64().zip(claims["iat"].as_i64()).is_some_and(|(exp, iat)| exp - iat == 3600)
        };
        let token = |number| format!(r#"{{"access_token":"t{number}","expires_in":3599,"token_type":"Bearer"}}"#);
        let refusal = r#"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#;
        tokens(&given, is_right, token, refusal)
    };
    let url = format!("{}/token", tokens.url());
    let (path, key) = key_file(folder.path(), &url);
    *public.lock().unwrap() = (url, key);
    let store = store_for_newest(&given);
    let environment = [("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap())];
    connect(Cloud::Google, &store.url(), &environment).await.unwrap();
    assert_eq!(given.load(Ordering::SeqCst), 1);

    // With another key, the signature does not match the account.
    let known = public.lock().unwrap().clone();
    let (path, _) = key_file(folder.path(), &known.0);
    let environment = [("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap())];
    let refused = connect(Cloud::Google, &store.url(), &environment).await;
    check_refused(refused, &["Invalid JWT Signature"]);

    for (text, expected) in [("{}", "missing field `type`"), (r#"{"type":"gdch"}"#, "expected a service_account")] {
        std::fs::write(&path, text).unwrap();
        check_refused(connect(Cloud::Google, &store.url(), &environment).await, &[expected]);
    }
}

#[tokio::test]
async fn google_exchanges_the_token_of_another_provider() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, r#"{"id_token":"of-the-pod"}"#).unwrap();
    let given = Arc::new(AtomicUsize::new(0));
    let google = {
        let given = given.clone();
        FakeServer::start_raw(move |asked| {
            let fields = [
                ("subject_token", "of-the-pod"),
                ("audience", "//iam.example/pool"),
                ("scope", "https://www.googleapis.com/auth/cloud-platform"),
            ];
            if asked.starts_with("POST /v1/token ") && has_fields(asked, &fields) {
                return answer(200, r#"{"access_token":"federated","expires_in":3600}"#);
            }
            let is_impersonation = asked.starts_with("POST /v1/serviceAccounts/reader:generateAccessToken ")
                && header(asked, "authorization") == Some("Bearer federated")
                && asked.contains("auth/monitoring.read");
            if !is_impersonation {
                return answer(403, r#"{"error":"unauthorized_client"}"#);
            }
            let token = given.fetch_add(1, Ordering::SeqCst) + 1;
            answer(200, &format!(r#"{{"accessToken":"t{token}","expireTime":"2999-01-01T00:00:00Z"}}"#))
        })
    };
    let path = folder.path().join("federation.json");
    let object = serde_json::json!({
        "type": "external_account", "audience": "//iam.example/pool",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": format!("{}/v1/token", google.url()),
        "service_account_impersonation_url": format!("{}/v1/serviceAccounts/reader:generateAccessToken", google.url()),
        "credential_source": {"file": token, "format": {"type": "json", "subject_token_field_name": "id_token"}},
    });
    std::fs::write(&path, object.to_string()).unwrap();
    let store = store_for_newest(&given);
    let environment = [("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap())];
    connect(Cloud::Google, &store.url(), &environment).await.unwrap();
    assert_eq!(given.load(Ordering::SeqCst), 1);
}
