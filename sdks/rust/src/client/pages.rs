//! Lists, page by page.

use super::Client;
use crate::error::Error;
use crate::transport::Call;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A list that is read as it is asked for.
///
/// ```no_run
/// # async fn f(client: duly_client::Client) -> Result<(), duly_client::Error> {
/// let mut jobs = client.jobs(duly_client::types::JobFilter::new().queue("bills"));
/// while let Some(job) = jobs.next().await? {
///     println!("{}", job.id);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pages<T> {
    client: Client,
    path: String,
    query: Vec<(&'static str, String)>,
    items: std::vec::IntoIter<T>,
    /// None before the first page; then what the last one said.
    next: Option<Option<String>>,
}

#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl<T: DeserializeOwned> Pages<T> {
    pub(super) fn new(
        client: &Client,
        path: impl Into<String>,
        query: Vec<(&'static str, String)>,
    ) -> Pages<T> {
        let items = Vec::new().into_iter();
        Pages { client: client.clone(), path: path.into(), query, items, next: None }
    }

    /// The next one, from the next page if need be; None at the end.
    pub async fn next(&mut self) -> Result<Option<T>, Error> {
        loop {
            if let Some(item) = self.items.next() {
                return Ok(Some(item));
            }
            let mut query = self.query.clone();
            let asked = match &self.next {
                None => None,
                Some(None) => return Ok(None),
                Some(Some(cursor)) => {
                    query.push(("cursor", cursor.clone()));
                    Some(cursor.clone())
                }
            };
            let page: Page<T> = self.client.call(Call::get(&*self.path).query(&query)).await?;
            if asked.is_some() && page.next_cursor == asked {
                // Nothing else bounds this loop than a list that goes on.
                return Err(Error::unreadable(&self.path, "a page follows itself"));
            }
            self.items = page.items.into_iter();
            self.next = Some(page.next_cursor);
        }
    }

    /// The rest, all of it.
    pub async fn all(mut self) -> Result<Vec<T>, Error> {
        let mut found = Vec::new();
        while let Some(item) = self.next().await? {
            found.push(item);
        }
        Ok(found)
    }
}
